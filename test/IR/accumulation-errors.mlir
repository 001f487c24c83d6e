// RUN: binade-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{'bits' of an accumulator is from 8 to 24, got 25}}
#wide = #binade.accumulation<bits = 25, step = 32, promote = 0>

// -----

// expected-error@+1 {{'step' of an accumulator is from 1 to 32, got 64}}
#long = #binade.accumulation<bits = 14, step = 64, promote = 128>

// -----

// expected-error@+1 {{'promote' is 0, for never, or a multiple of 'step' = 32, got 48}}
#uneven = #binade.accumulation<bits = 14, step = 32, promote = 48>

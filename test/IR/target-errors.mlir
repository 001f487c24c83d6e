// RUN: binade-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{expected 'codes', 'multiple', 'block', 'attention' or 'most'}}
func.func private @unknown() attributes {target = #binade.target<"cpu", piece = 4096, codecs = [f16]>}

// -----

// expected-error@+1 {{expected '='}}
func.func private @no_value() attributes {target = #binade.target<"cpu", piece = 4096, block>}

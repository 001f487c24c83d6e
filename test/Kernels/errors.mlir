// RUN: not binade-opt %s --binade-expand-composites 2>&1 | FileCheck %s --check-prefix=EXPAND
// RUN: not binade-opt %s --binade-form-kernels 2>&1 | FileCheck %s --check-prefix=FORM

// EXPAND: error: expected a function '@step' to expand
// FORM: error: expected a function '@step' to form kernels of
func.func @forward() {
  return
}

// RUN: binade-translate %s --kernels-to-llvm --level=x86-64-v3 | FileCheck %s --check-prefix=IR
// RUN: binade-translate %s --kernels-to-assembly --level=x86-64-v3 | FileCheck %s --check-prefix=V3
// RUN: binade-translate %s --kernels-to-assembly --level=x86-64-v4 | FileCheck %s --check-prefix=V4
// RUN: binade-translate %s --kernels-to-object --level=x86-64-v3 -o %t.so
// RUN: llvm-nm -D --defined-only %t.so | FileCheck %s --check-prefix=SYMBOLS
// RUN: not binade-translate %s --kernels-to-object --level=sse2 2>&1 | FileCheck %s --check-prefix=LEVEL

// Translates every kernel of a module, and nothing else, to text and to binary code.

// IR:      define {{.*}} @twice(ptr {{.*}}, i64 {{.*}}, i64 {{.*}})
// IR:        fadd <{{[0-9]+}} x float>
// IR-NOT:  @step

// V3:      twice:
// V3:        vaddps {{.*}}%ymm
// V3-NOT:    %zmm

// V4:      twice:
// V4:        vaddps {{.*}}%zmm

// SYMBOLS-NOT: step
// SYMBOLS:     T twice
// SYMBOLS-NOT: step

// LEVEL: error: no instruction set is called 'sse2'; expected x86-64-v3 or x86-64-v4
func.func @step(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %y = binade.launch [@twice](%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}
func.func private @twice(%x: tensor<1024xf32>) -> tensor<1024xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.add %x, %x : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

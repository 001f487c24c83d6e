// RUN: binade-opt %s --binade-lower-table-lookups=bits=512 | FileCheck %s --check-prefixes=CHECK,AVX512
// RUN: binade-opt %s --binade-lower-table-lookups=bits=256 | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: not binade-opt %s --binade-lower-table-lookups=bits=128 2>&1 | FileCheck %s --check-prefix=WIDTH

// WIDTH: error: expected 256 or 512 for option 'bits', got 128

memref.global "private" constant @sixteen : memref<16xf32> = dense<[
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]>
memref.global "private" constant @many : memref<64xf32> = dense<2.0>
memref.global "private" constant @twelve : memref<12xf32> = dense<3.0>
memref.global "private" @variable : memref<16xf32> = dense<4.0>

// A table of 16 entries is one register of 512 bits or two of 256.

// CHECK-LABEL:  func @one_register
// AVX512:         %[[T:.*]] = arith.constant dense<[0.000000e+00, {{.*}}, 1.500000e+01]> : vector<16xf32>
// AVX512:         llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%[[T]], %arg0)
// AVX512-NOT:     llvm.call_intrinsic
// AVX2:           vector.extract_strided_slice %arg0 {offsets = [0], sizes = [8], strides = [1]}
// AVX2-COUNT-2:   llvm.call_intrinsic "llvm.x86.avx2.permps"
// AVX2:           arith.select
// AVX2:           vector.extract_strided_slice %arg0 {offsets = [8], sizes = [8], strides = [1]}
// AVX2-COUNT-2:   llvm.call_intrinsic "llvm.x86.avx2.permps"
// CHECK:          return
func.func @one_register(%index: vector<16xi32>) -> vector<16xf32> {
  %table = memref.get_global @sixteen : memref<16xf32>
  %zero = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<16xi1>
  %none = arith.constant dense<0.0> : vector<16xf32>
  %y = vector.gather %table[%zero] [%index], %all, %none
    : memref<16xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  return %y : vector<16xf32>
}

// A permutation of 512 bits reads two registers; bits of the index select between pairs. A
// gather takes less time than eight permutations of 256 bits.

// CHECK-LABEL:  func @four_registers
// AVX512-COUNT-2: llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"
// AVX512:         %[[B:.*]] = arith.andi %arg0, %{{.*}} : vector<16xi32>
// AVX512:         %[[H:.*]] = arith.cmpi ne, %[[B]]
// AVX512:         arith.select %[[H]]
// AVX2:           vector.gather
// CHECK:          return
func.func @four_registers(%index: vector<16xi32>) -> vector<16xf32> {
  %table = memref.get_global @many : memref<64xf32>
  %zero = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<16xi1>
  %none = arith.constant dense<0.0> : vector<16xf32>
  %y = vector.gather %table[%zero] [%index], %all, %none
    : memref<64xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  return %y : vector<16xf32>
}

// Other gathers stay: of a table that is not a power of two, that may change, whose first
// element is another, and of some lanes.

// CHECK-LABEL:   func @gathers
// CHECK-COUNT-4:   vector.gather
// CHECK-NOT:       llvm.call_intrinsic
// CHECK:           return
func.func @gathers(%index: vector<16xi32>, %mask: vector<16xi1>, %from: index)
    -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
  %constant = memref.get_global @sixteen : memref<16xf32>
  %short = memref.get_global @twelve : memref<12xf32>
  %variable = memref.get_global @variable : memref<16xf32>
  %zero = arith.constant 0 : index
  %all = arith.constant dense<true> : vector<16xi1>
  %none = arith.constant dense<0.0> : vector<16xf32>
  %0 = vector.gather %short[%zero] [%index], %all, %none
    : memref<12xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  %1 = vector.gather %variable[%zero] [%index], %all, %none
    : memref<16xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  %2 = vector.gather %constant[%from] [%index], %all, %none
    : memref<16xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  %3 = vector.gather %constant[%zero] [%index], %mask, %none
    : memref<16xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  return %0, %1, %2, %3 : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
}

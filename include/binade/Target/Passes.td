//===- Passes.td - Target passes ------------------------------------------===//

#ifndef BINADE_TARGET_PASSES_TD
#define BINADE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def BitcastNarrowFloatsPass : Pass<"binade-bitcast-narrow-floats", "::mlir::ModuleOp"> {
  let summary = "Hold floats of 16 bits or less as integers";
  let description = [{
    LLVM moves some values of narrow float types (loads, selects, shuffles) through f32: by
    calls of a library, with subnormals flushed to zero, or by computing on them.

    The pass gives every value and memref of f16, bf16 or a float of at most 8 bits the
    integer type of the same width, and inserts an `arith.bitcast` where such a value is
    widened or the result of a rounding. Casts between integers and such floats go
    through f32.

    Example:

    ```mlir
    // Before
    func.func @load(%x: memref<8xbf16>, %i: index) -> f32 {
      %h = memref.load %x[%i] : memref<8xbf16>
      %f = arith.extf %h : bf16 to f32
      return %f : f32
    }
    ```

    ```mlir
    // After
    func.func @load(%x: memref<8xi16>, %i: index) -> f32 {
      %0 = memref.load %x[%i] : memref<8xi16>
      %1 = arith.bitcast %0 : i16 to bf16
      %2 = arith.extf %1 : bf16 to f32
      return %2 : f32
    }
    ```

    Requires: code that computes in f32 or f64 (`binade-emit-kernels` or
    `binade-emit-gpu-kernels`).

    Preserves: every value, bit for bit.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LowerTransposesPass : Pass<"binade-lower-transposes"> {
  let summary = "Lower vector.transpose to shuffles";
  let description = [{
    LLVM has no transpose of vectors. The pass replaces `vector.transpose` by
    `vector.shuffle`; a tile of 16 x 16 elements of 32 bits takes 64 shuffles of two rows
    each.

    Example:

    ```mlir
    // Before
    func.func @turn(%x: vector<2x3xf32>) -> vector<3x2xf32> {
      %y = vector.transpose %x, [1, 0] : vector<2x3xf32> to vector<3x2xf32>
      return %y : vector<3x2xf32>
    }
    ```

    ```mlir
    // After
    func.func @turn(%x: vector<2x3xf32>) -> vector<3x2xf32> {
      %0 = vector.shape_cast %x : vector<2x3xf32> to vector<6xf32>
      %1 = vector.shuffle %0, %0 [0, 3, 1, 4, 2, 5] : vector<6xf32>, vector<6xf32>
      %2 = vector.shape_cast %1 : vector<6xf32> to vector<3x2xf32>
      return %2 : vector<3x2xf32>
    }
    ```

    Requires: nothing.

    Preserves: every value, bit for bit.
  }];
  let dependentDialects = ["::mlir::vector::VectorDialect"];
}

def LowerTableLookupsPass : Pass<"binade-lower-table-lookups"> {
  let summary = "Look up small constant tables by permutations of registers";
  let description = [{
    On x86-64, a gather takes as long as a load per lane. A `vector.gather` from a constant
    of 32-bit floats is replaced by permutations of vector registers, whose latency is that
    of a shuffle: of tables of up to 256 elements with registers of 512 bits, and of up to
    16 elements with registers of 256 bits. The number of elements must be a power of two.

    Example (with `bits=256`):

    ```mlir
    // Before
    memref.global "private" constant @table : memref<8xf32> =
        dense<[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]>
    func.func @look_up(%index: vector<8xi32>) -> vector<8xf32> {
      %c0 = arith.constant 0 : index
      %mask = arith.constant dense<true> : vector<8xi1>
      %rest = arith.constant dense<0.0> : vector<8xf32>
      %table = memref.get_global @table : memref<8xf32>
      %y = vector.gather %table[%c0] [%index], %mask, %rest
          : memref<8xf32>, vector<8xi32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
      return %y : vector<8xf32>
    }
    ```

    ```mlir
    // After
    memref.global "private" constant @table : memref<8xf32> =
        dense<[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]>
    func.func @look_up(%index: vector<8xi32>) -> vector<8xf32> {
      %c0 = arith.constant 0 : index
      %mask = arith.constant dense<true> : vector<8xi1>
      %rest = arith.constant dense<0.0> : vector<8xf32>
      %table = memref.get_global @table : memref<8xf32>
      %entries = arith.constant
          dense<[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]> : vector<8xf32>
      %y = llvm.call_intrinsic "llvm.x86.avx2.permps"(%entries, %index)
          : (vector<8xf32>, vector<8xi32>) -> vector<8xf32>
      return %y : vector<8xf32>
    }
    ```

    Canonicalization removes the ops that are not used any more.

    Requires: indices inside of the table.

    Preserves: every value, bit for bit.
  }];
  let options = [
    Option<"bits", "bits", "unsigned", "256",
           "Width of vector registers: 256 (AVX2) or 512 (AVX-512)">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
}

def AddEntryPointsPass : Pass<"binade-add-entry-points", "::mlir::ModuleOp"> {
  let summary = "Add the functions by which the runtime calls kernels";
  let description = [{
    Kernels have different numbers of buffers; the runtime calls all of them through one
    type of function.

    For each `llvm.func @<kernel>.items(ptr, ..., i64, i64)` the pass adds `@<kernel>`, in
    C `void kernel(void *const *buffers, int64_t begin, int64_t end)`, which loads the
    addresses of the buffers from an array. For `@<kernel>.finish(ptr, ..., i64)` it adds
    `@<kernel>_finish`, in C `void kernel_finish(void *const *buffers, int64_t count)`.

    Example:

    ```mlir
    // Before
    llvm.func @twice.items(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64) {
      llvm.return
    }
    ```

    ```mlir
    // After
    llvm.func internal @twice.items(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64) {
      llvm.return
    }
    llvm.func @twice(%buffers: !llvm.ptr, %begin: i64, %end: i64) {
      %0 = llvm.getelementptr %buffers[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
      %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
      %2 = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
      %3 = llvm.load %2 : !llvm.ptr -> !llvm.ptr
      llvm.call @twice.items(%1, %3, %begin, %end) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
      llvm.return
    }
    ```

    Requires: kernels in the LLVM dialect with bare pointers.

    Preserves: the bodies of the kernels, which become internal functions.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def SelectConversionsPass : Pass<"binade-select-conversions"> {
  let summary = "Select conversion instructions of NVIDIA GPUs for casts";
  let description = [{
    GPUs convert two narrow floats per instruction. LLVM selects these instructions for few
    casts.

    The pass replaces casts between f32 and narrow floats by operations of the nvvm dialect:

    - f32 to bf16 and f16.
    - f32 to `f8E4M3FN` and `f8E5M2` after a clamp to the largest finite value: the
      instruction saturates, so that the clamp is removed. Back to f32 by way of f16. Both
      only where the chip has these formats.
    - bf16 to f32, two elements per word.

    A division by one divisor for many elements, whose quotients are rounded to an 8-bit
    format, becomes a multiplication by the reciprocal with a correction that keeps the
    quotient. Other casts are left for `binade-expand-float-casts`.

    Example:

    ```mlir
    // Before
    func.func @round(%x: vector<2xf32>) -> vector<2xbf16> {
      %y = arith.truncf %x : vector<2xf32> to vector<2xbf16>
      return %y : vector<2xbf16>
    }
    ```

    ```mlir
    // After
    func.func @round(%x: vector<2xf32>) -> vector<2xbf16> {
      %0 = vector.extract %x[0] : f32 from vector<2xf32>
      %1 = vector.extract %x[1] : f32 from vector<2xf32>
      %2 = nvvm.convert.f32x2.to.bf16x2 %1, %0 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xbf16>
      %3 = llvm.bitcast %2 : vector<2xbf16> to i32
      %4 = vector.from_elements %3 : vector<1xi32>
      %5 = vector.bitcast %4 : vector<1xi32> to vector<2xbf16>
      return %5 : vector<2xbf16>
    }
    ```

    Requires: `binade-bitcast-narrow-floats`.

    Preserves: every value, except for the sign and the payload of NaNs.
  }];
  let options = [
      Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
             "Compute capability: sm_80, sm_89, sm_90 or sm_100.">];
  let dependentDialects = [
      "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
      "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
      "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def CombineClampsPass : Pass<"binade-combine-clamps"> {
  let summary = "Replace compare and select by minimum and maximum";
  let description = [{
    A clamp that is written as a comparison and a select takes two instructions; a minimum
    or maximum that propagates NaN takes one.

    The pass replaces `x > c ? c : x` by `arith.minimumf` and `x < c ? c : x` by
    `arith.maximumf`, where c is a constant other than 0 and NaN and the comparison is
    ordered. (A minimum distinguishes the two zeros, a comparison does not.)

    Example:

    ```mlir
    // Before
    func.func @bound(%x: f32) -> f32 {
      %most = arith.constant 4.0 : f32
      %above = arith.cmpf ogt, %x, %most : f32
      %y = arith.select %above, %most, %x : f32
      return %y : f32
    }
    ```

    ```mlir
    // After
    func.func @bound(%x: f32) -> f32 {
      %cst = arith.constant 4.0 : f32
      %0 = arith.cmpf ogt, %x, %cst : f32
      %1 = arith.minimumf %x, %cst : f32
      return %1 : f32
    }
    ```

    Requires: nothing. The comparison is left for dead code elimination.

    Preserves: every value; a NaN stays a NaN.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SetCpuTargetPass : Pass<"binade-set-cpu-target", "::mlir::ModuleOp"> {
  let summary = "Describe the attention kernels of CPUs on the module";
  let description = [{
    The runtime has fused kernels of attention for CPUs, which keep scores in caches.
    Without them, attention is decomposed into tiles of matmuls and softmax.

    The pass sets the module's attribute `binade.target` (`#binade.target`) to the formats
    and the head sizes for which there are such kernels. Passes of the kernels phase read
    it.

    Example:

    ```mlir
    // Before: --binade-set-cpu-target
    module {
    }
    ```

    ```mlir
    // After
    module attributes {binade.target = #binade.target<
        "cpu", piece = 0, attention = [f32, f16, bf16], most = 256>} {
    }
    ```

    Requires: nothing. Run at the beginning of the kernels phase.

    Preserves: everything else.
  }];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def SetCudaTargetPass : Pass<"binade-set-cuda-target", "::mlir::ModuleOp"> {
  let summary = "Describe a GPU and its libraries on the module";
  let description = [{
    How an op is computed depends on the target: whether its library multiplies FP8
    tensors and takes scales of blocks, and for which formats attention is one kernel.

    The pass sets the module's attribute `binade.target` (`#binade.target`) to the
    properties of the chip, cuBLASLt and the attention kernels. Passes of the kernels phase
    read it.

    Example:

    ```mlir
    // Before: --binade-set-cuda-target=chip=sm_80
    module {
    }
    ```

    ```mlir
    // After
    module attributes {binade.target = #binade.target<
        "cuda:sm_80", piece = 16777216, attention = [f16, bf16], most = 128>} {
    }
    ```

    Requires: nothing. Run at the beginning of the kernels phase.

    Preserves: everything else.
  }];
  let options = [
      Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
             "Compute capability: sm_80, sm_89, sm_90 or sm_100.">];
  let dependentDialects = ["::mlir::binade::BinadeDialect"];
}

def LowerVectorsPass : Pass<"binade-lower-vectors"> {
  let summary = "Lower vector operations that LLVM does not have";
  let description = [{
    Replaces operations of the vector dialect that have no counterpart in LLVM: gathers by
    one load per lane, transposes and interleaves by shuffles, broadcasts, shape casts,
    strided slices and `vector.step` by inserts, extracts and constants, and reductions of
    i1 by scalar operations, which LLVM would pass through the memory of the thread.

    Example:

    ```mlir
    // Before
    func.func @pairs(%x: vector<2xf32>, %y: vector<2xf32>) -> vector<4xf32> {
      %z = vector.interleave %x, %y : vector<2xf32> -> vector<4xf32>
      return %z : vector<4xf32>
    }
    ```

    ```mlir
    // After
    func.func @pairs(%x: vector<2xf32>, %y: vector<2xf32>) -> vector<4xf32> {
      %0 = vector.shuffle %x, %y [0, 2, 1, 3] : vector<2xf32>, vector<2xf32>
      return %0 : vector<4xf32>
    }
    ```

    Requires: nothing.

    Preserves: every value, bit for bit.
  }];
  let dependentDialects = [
      "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
      "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerToNVVMPass : Pass<"binade-lower-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Convert kernels of the gpu dialect to the LLVM and nvvm dialects";
  let description = [{
    Converts everything in a `gpu.module`. Memrefs become bare pointers, shared memory
    becomes globals of its address space, `known_block_size` becomes `nvvm.reqntid`, and
    `nvvm.preferred_minctasm`, the number of blocks that a multiprocessor should hold,
    becomes `nvvm.minctasm` on chips whose assembler has enough registers for it.
    `@<kernel>.items` is renamed to `@<kernel>`, and `@<kernel>.finish` to
    `@<kernel>_finish`. An operation for which the chip has no instruction is an error:
    nothing is left to a device library.

    Example:

    ```mlir
    // Before
    gpu.module @kernels {
      gpu.func @clear.items(%x: memref<256xf32> {llvm.noalias}) kernel
          attributes {known_block_size = array<i32: 256, 1, 1>} {
        %zero = arith.constant 0.0 : f32
        %i = gpu.thread_id x
        memref.store %zero, %x[%i] : memref<256xf32>
        gpu.return
      }
    }
    ```

    ```mlir
    // After
    gpu.module @kernels {
      llvm.func @clear(%x: !llvm.ptr {llvm.noalias})
          attributes {gpu.kernel, gpu.known_block_size = array<i32: 256, 1, 1>,
                      nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>} {
        %0 = llvm.mlir.poison : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %1 = llvm.insertvalue %x, %0[0]
            : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %2 = llvm.insertvalue %x, %1[1]
            : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %3 = llvm.mlir.constant(0 : index) : i64
        %4 = llvm.insertvalue %3, %2[2]
            : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %5 = llvm.mlir.constant(256 : index) : i64
        %6 = llvm.insertvalue %5, %4[3, 0]
            : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %7 = llvm.mlir.constant(1 : index) : i64
        %8 = llvm.insertvalue %7, %6[4, 0]
            : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %9 = llvm.mlir.constant(0.0 : f32) : f32
        %10 = nvvm.read.ptx.sreg.tid.x range <i32, 0, 256> : i32
        %11 = llvm.sext %10 : i32 to i64
        %12 = llvm.extractvalue %8[1]
            : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
        %13 = llvm.getelementptr inbounds|nuw %12[%11] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        llvm.store %9, %13 : f32, !llvm.ptr
        llvm.return
      }
    }
    ```

    Requires: kernels without structured control flow (`convert-scf-to-cf`) and without
    narrow floats (`binade-bitcast-narrow-floats`).

    Preserves: the values that the kernels store.
  }];
  let options = [
      Option<"chip", "chip", "std::string", /*default=*/"\"sm_90\"",
             "Compute capability: sm_80, sm_89, sm_90 or sm_100.">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

#endif // BINADE_TARGET_PASSES_TD

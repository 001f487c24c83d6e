//===- Base.td - what every op family includes ----------------------------===//

#ifndef BINADE_IR_OPS_BASE_TD
#define BINADE_IR_OPS_BASE_TD

include "binade/IR/BinadeAttrs.td"
include "binade/IR/BinadeDialect.td"
include "binade/Interfaces/AlgebraOpInterface.td"
include "binade/Interfaces/DifferentiableOpInterface.td"
include "binade/Interfaces/ElementwiseOpInterface.td"
include "binade/Interfaces/KernelOpInterface.td"
include "binade/Interfaces/LayoutOpInterface.td"
include "binade/Interfaces/PrecisionOpInterface.td"
include "binade/Interfaces/TrainingOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Integers for arithmetic. Signless ones are the signed ones of ONNX; i1 is 0 or 1.
def Integer : AnyTypeOf<[I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64], "integer">;
// Only for casts and data movement. Each takes a byte.
def SmallInteger
    : AnyTypeOf<[I<2>, I<4>, UI<2>, UI<4>], "integer of 2 or 4 bits">;

// The formats of values: those that memory holds. Operands may be rounded to tf32, but it is
// stored as f32 (`round_to`).
defvar NarrowFloats = [F32, BF16, F16, F8E4M3FN, F8E5M2, F8E4M3, F8E3M4, F8E4M3FNUZ,
                       F8E5M2FNUZ, F8E4M3B11FNUZ, F8E8M0FNU, F6E2M3FN, F6E3M2FN, F4E2M1FN];
def Float : AnyTypeOf<!listconcat([F64], NarrowFloats),
                      "floating-point (f64, f32, bf16, f16, FP8, FP6 or f4E2M1FN)">;
def NarrowFloat : AnyTypeOf<NarrowFloats,
                            "floating-point (f32, bf16, f16, FP8, FP6 or f4E2M1FN)">;
// The formats of contractions and of what is computed from quantized values.
def ComputedFloat : AnyTypeOf<[F32, BF16, F16], "f32, bf16 or f16">;

def Tensor : StaticShapeTensorOf<[Float, Integer, SmallInteger]>;
def NumberTensor : StaticShapeTensorOf<[Float, Integer]>;
def FloatTensor : StaticShapeTensorOf<[Float]>;
def NarrowFloatTensor : StaticShapeTensorOf<[NarrowFloat]>;
def ComputedTensor : StaticShapeTensorOf<[ComputedFloat]>;
def StaticF32Tensor : StaticShapeTensorOf<[F32]>;
def IntegerTensor : StaticShapeTensorOf<[I32, I64]>;
def BoolTensor : StaticShapeTensorOf<[I1]>;
def BitsTensor : StaticShapeTensorOf<[Integer]>;

def F32Scalar : 0DTensorOf<[F32]>;
def I64Scalar : 0DTensorOf<[I64]>;
def F64Scalar : 0DTensorOf<[F64]>;
def IntegerScalar : 0DTensorOf<[I32, I64]>;
def BoolScalar : 0DTensorOf<[I1]>;

// The generator's state is tensor<2xi64>: seed, and number of steps begun. A
// random number depends on (seed, step, stream, element index) alone: Philox4x32-10 with
// key = seed, counter = (index, stream, step) (Salmon et al., 2011).
def RngTensor : ConfinedType<1DTensorOf<[I64]>,
    [CPred<"::llvm::cast<::mlir::RankedTensorType>($_self).getDimSize(0) == 2">],
    "tensor<2xi64>, seed and number of steps begun">;

// See ReadsNeighbors.h.
def ReadsNeighbors : NativeOpTrait<"ReadsNeighbors"> {
  let cppNamespace = "::mlir::binade";
}

// Checks the types of results against the inferred ones, with one message. Stands before
// MLIR's interface, whose own check adds a second one.
def ChecksInferredTypes : NativeOpTrait<"ChecksInferredTypes"> {
  let cppNamespace = "::mlir::binade";
}
def InfersTypes
    : TraitList<[ChecksInferredTypes, InferTypeOpAdaptorWithIsCompatible]>;

// The last two operands are both floats, or of one element type.
def OneKindOfElements : NativeOpTrait<"OneKindOfElements"> {
  let cppNamespace = "::mlir::binade";
}

// An op with a precision decision. `precisionClass` is a case of PrecisionClass;
// `arguments` end with `Binade_PrecisionArg`.
class Binade_PrecisionOp<string mnemonic, string precisionClass,
                         list<Trait> traits = []>
    : Binade_Op<mnemonic, !listconcat(traits, [
          DeclareOpInterfaceMethods<AlgebraOpInterface>,
          DeclareOpInterfaceMethods<PrecisionOpInterface>])> {
  code classDefinition = [{
    PrecisionClass $cppClass::getPrecisionClass() {
      return PrecisionClass::}] # precisionClass # [{;
    }
  }];
  let extraClassDefinition = classDefinition;
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}


#endif // BINADE_IR_OPS_BASE_TD

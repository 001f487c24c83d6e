// RUN: binade-opt %s --binade-build-gradient --split-input-file | FileCheck %s

// The adjoint of each elementwise op, on scalars: the loss is the result of the op.

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[NEG:.*]] = binade.neg %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[NEG2:.*]] = binade.neg %[[DY]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[NEG]], %[[NEG2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.neg %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient is 0 at 0, because the sign of 0 is 0.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[ABS:.*]] = binade.abs %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SIGN:.*]] = binade.sign %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[DY]], %[[SIGN]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[ABS]], %[[MUL]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.abs %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Derivatives that depend on the result alone are computed from it.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[EXP:.*]] = binade.exp %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[EXP]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[DY]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[EXP]], %[[MUL]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.exp %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[LOG:.*]] = binade.log %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[DIV:.*]] = binade.div %[[DY]], %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[LOG]], %[[DIV]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.log %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[SQRT:.*]] = binade.sqrt %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[SQRT]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[DY]], %[[C]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[DIV:.*]] = binade.div %[[MUL]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[SQRT]], %[[DIV]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.sqrt %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[RECIPROCAL:.*]] = binade.reciprocal %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[RECIPROCAL]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[SAVE]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[DY]], %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[NEG:.*]] = binade.neg %[[MUL2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[RECIPROCAL]], %[[NEG]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.reciprocal %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[TANH:.*]] = binade.tanh %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[TANH]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<1.000000e+00>
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[SAVE]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SUB:.*]] = binade.sub %[[C]], %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[DY]], %[[SUB]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[TANH]], %[[MUL2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.tanh %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[ERF:.*]] = binade.erf %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %arg0, %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[NEG:.*]] = binade.neg %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[EXP:.*]] = binade.exp %[[NEG]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<1.12837923>
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[C]], %[[EXP]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL3:.*]] = binade.mul %[[DY]], %[[MUL2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[ERF]], %[[MUL3]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.erf %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[SIGMOID:.*]] = binade.sigmoid %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[SIGMOID]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<1.000000e+00>
// CHECK-NEXT:    %[[SUB:.*]] = binade.sub %[[C]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[SAVE]], %[[SUB]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[DY]], %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[SIGMOID]], %[[MUL2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.sigmoid %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Ops that policies address by name have a named gradient.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[RELU:.*]] = binade.relu %arg0
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[RELU]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[RELU_GRAD:.*]] = binade.relu_grad %[[DY]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[RELU]], %[[RELU_GRAD]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.relu %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[GELU:.*]] = binade.gelu %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[GELU_GRAD:.*]] = binade.gelu_grad %[[DY]], %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[GELU]], %[[GELU_GRAD]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.gelu %x : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[SUB:.*]] = binade.sub %arg0, %arg1
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[NEG:.*]] = binade.neg %[[DY]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[SUB]], %[[DY]], %[[NEG]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.sub %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %arg0, %arg1
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[DY]], %arg1 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL3:.*]] = binade.mul %[[DY]], %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[MUL]], %[[MUL2]], %[[MUL3]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.mul %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[DIV:.*]] = binade.div %arg0, %arg1
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[DIV]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[DIV2:.*]] = binade.div %[[DY]], %arg1 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[DIV2]], %[[SAVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[NEG:.*]] = binade.neg %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[DIV]], %[[DIV2]], %[[NEG]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.div %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// 0 where the base is 0: its logarithm is infinite.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[POW:.*]] = binade.pow %arg0, %arg1
// CHECK-NEXT:    %[[SAVE:.*]] = binade.save %[[POW]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<1.000000e+00>
// CHECK-NEXT:    %[[C2:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[SUB:.*]] = binade.sub %arg1, %[[C]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[POW2:.*]] = binade.pow %arg0, %[[SUB]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %arg1, %[[POW2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[DY]], %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C3:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[COMPARE:.*]] = binade.compare %arg1, %[[C3]] {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<equal>}
// CHECK-NEXT:    %[[C4:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[SELECT:.*]] = binade.select %[[COMPARE]], %[[C4]], %[[MUL2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[ZERO:.*]] = binade.compare %arg0, %[[C2]] {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<equal>}
// CHECK-NEXT:    %[[NOT_NEGATIVE:.*]] = binade.compare %arg1, %[[C2]] {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<greater_equal>}
// CHECK-NEXT:    %[[COMPARE2:.*]] = binade.and %[[ZERO]], %[[NOT_NEGATIVE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[LOG:.*]] = binade.log %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL3:.*]] = binade.mul %[[SAVE]], %[[LOG]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL4:.*]] = binade.mul %[[DY]], %[[MUL3]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SELECT2:.*]] = binade.select %[[COMPARE2]], %[[C2]], %[[MUL4]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[POW]], %[[SELECT]], %[[SELECT2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.pow %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Where both are equal, each gets half of the gradient.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MAX:.*]] = binade.max %arg0, %arg1
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[HALF:.*]] = binade.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[DY]], %[[HALF]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[TIE:.*]] = binade.compare %arg0, %arg1 {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<equal>}
// CHECK-NEXT:    %[[SHARE:.*]] = binade.select %[[TIE]], %[[MUL]], %[[DY]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[LOST:.*]] = binade.compare %arg0, %arg1 {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<less>}
// CHECK-NEXT:    %[[SELECT:.*]] = binade.select %[[LOST]], %[[C]], %[[SHARE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[LOST2:.*]] = binade.compare %arg1, %arg0 {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<less>}
// CHECK-NEXT:    %[[SELECT2:.*]] = binade.select %[[LOST2]], %[[C]], %[[SHARE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[MAX]], %[[SELECT]], %[[SELECT2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.max %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[MIN:.*]] = binade.min %arg0, %arg1
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[HALF:.*]] = binade.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[DY]], %[[HALF]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[TIE:.*]] = binade.compare %arg0, %arg1 {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<equal>}
// CHECK-NEXT:    %[[SHARE:.*]] = binade.select %[[TIE]], %[[MUL]], %[[DY]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[LOST:.*]] = binade.compare %arg0, %arg1 {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<greater>}
// CHECK-NEXT:    %[[SELECT:.*]] = binade.select %[[LOST]], %[[C]], %[[SHARE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[LOST2:.*]] = binade.compare %arg1, %arg0 {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<greater>}
// CHECK-NEXT:    %[[SELECT2:.*]] = binade.select %[[LOST2]], %[[C]], %[[SHARE]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[MIN]], %[[SELECT]], %[[SELECT2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.min %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A constant exponent needs no logarithm.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<3.000000e+00>
// CHECK-NEXT:    %[[POW:.*]] = binade.pow %arg0, %[[C]]
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C2:.*]] = binade.constant dense<1.000000e+00>
// CHECK-NEXT:    %[[SUB:.*]] = binade.sub %[[C]], %[[C2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[POW2:.*]] = binade.pow %arg0, %[[SUB]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL:.*]] = binade.mul %[[C]], %[[POW2]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[MUL2:.*]] = binade.mul %[[DY]], %[[MUL]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[POW]], %[[MUL2]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %three = binade.constant dense<3.0> : tensor<f32>
  %loss = binade.pow %x, %three : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[SELECT:.*]] = binade.select %arg2, %arg0, %arg1
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[C:.*]] = binade.constant dense<0.000000e+00>
// CHECK-NEXT:    %[[SELECT2:.*]] = binade.select %arg2, %[[DY]], %[[C]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[SELECT3:.*]] = binade.select %arg2, %[[C]], %[[DY]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[SELECT]], %[[SELECT2]], %[[SELECT3]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>},
                   %y: tensor<f32> {binade.name = "y", binade.role = #binade.role<parameter>},
                   %c: tensor<i1> {binade.name = "c", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.select %c, %x, %y : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient of a cast is a cast back to the format of the operand.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[CAST:.*]] = binade.cast %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[CAST2:.*]] = binade.cast %[[DY]] {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[CAST]], %[[CAST2]]
func.func @forward(%x: tensor<bf16> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %loss = binade.cast %x : (tensor<bf16>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The root of a sum of squares is a norm, whose gradient at 0 is 0.
// CHECK-LABEL: func.func @gradient
// CHECK:         %[[DX:.*]] = binade.div %{{.*}}, %[[ROOT:.*]] {binade.phase = #binade.phase<backward>}
// CHECK:         %[[ZERO:.*]] = binade.compare %[[ROOT]], %{{.*}} {binade.phase = #binade.phase<backward>, comparison = #binade.comparison<equal>}
// CHECK:         binade.select %[[ZERO]], %{{.*}}, %[[DX]] {binade.phase = #binade.phase<backward>}
func.func @forward(%x: tensor<4xf32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %square = binade.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %sum = binade.reduce_sum %square {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %loss = binade.sqrt %sum : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A constant operand is a bound: at equality the other operand gets all of the gradient or none.
// CHECK-LABEL: func.func @gradient
// CHECK:         %[[MIN:.*]] = binade.min %arg0, %{{.*}} {binade.ties = "flat"}
// CHECK:         binade.compare %{{.*}}, %{{.*}} {{.*}}comparison = #binade.comparison<greater_equal>
// CHECK-NOT:     binade.mul
// CHECK:         binade.compare %arg0, %{{.*}} {{.*}}comparison = #binade.comparison<less>
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %one = binade.constant dense<1.0> : tensor<f32>
  %low = binade.min %x, %one {binade.ties = "flat"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %loss = binade.max %low, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A detached op receives no gradient.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %[[LOSS:.*]] = binade.mul %arg0, %arg0
// CHECK-NEXT:    %[[DY:.*]] = binade.gradient_seed {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    %[[DX:.*]] = binade.mul %[[DY]], %arg0 {binade.phase = #binade.phase<backward>}
// CHECK-NEXT:    return %[[LOSS]], %[[DX]]
func.func @forward(%x: tensor<f32> {binade.name = "x", binade.role = #binade.role<parameter>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %still = binade.reshape %x {binade.detached} : (tensor<f32>) -> tensor<f32>
  %loss = binade.mul %x, %still : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

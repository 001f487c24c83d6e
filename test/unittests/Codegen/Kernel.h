//===- Kernel.h - One operation, compiled for this machine ------*- C++ -*-===//

#ifndef BINADE_UNITTESTS_CONVERSION_KERNEL_H
#define BINADE_UNITTESTS_CONVERSION_KERNEL_H

#include <string>

struct LLVMOrcOpaqueLLJIT;

namespace binade::test {

/// The vector shape of an operation and the CPU that it is compiled for.
struct Variant {
  /// The shape before the element type: "16x", "2x8x", or "" for scalars.
  std::string shape = "16x";
  /// An LLVM CPU name, or "" for this machine's.
  std::string cpu;
};

/// An operation that went through `binade-expand-math` and
/// `binade-expand-float-casts` and was compiled to machine code.
class Kernel {
public:
  /// `op` is MLIR text that defines %r from %x and may use %y, both of lane
  /// type $x; the lane type of the result is $r. `x` and `r` name the element
  /// types.
  Kernel(const std::string &op, const std::string &x, const std::string &r,
         const Variant &variant = {});
  ~Kernel();
  Kernel(const Kernel &) = delete;

  /// The number of elements that one call reads from each input and writes.
  static constexpr int size = 4096;

  void operator()(const void *x, const void *y, void *r) const { run(x, y, r); }

private:
  LLVMOrcOpaqueLLJIT *jit;
  void (*run)(const void *, const void *, void *);
};

} // namespace binade::test

#endif // BINADE_UNITTESTS_CONVERSION_KERNEL_H

//===- FloatMode.h - Floating-point mode of a thread ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_FLOATMODE_H
#define BINADE_LIB_RUNTIME_EXECUTION_FLOATMODE_H

#include <xmmintrin.h>

namespace binade {

/// Round to nearest even, subnormals kept, exceptions masked, while in scope.
/// The host process may have asked for something else (flush to zero, say).
class IeeeMode {
public:
  IeeeMode() : saved(_mm_getcsr()) {
    if (saved != defaults)
      _mm_setcsr(defaults);
  }
  ~IeeeMode() { _mm_setcsr(saved); }
  IeeeMode(const IeeeMode &) = delete;

  /// For good.
  static void set() { _mm_setcsr(defaults); }

private:
  static constexpr unsigned defaults = 0x1f80;
  unsigned saved;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_FLOATMODE_H

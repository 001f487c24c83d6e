//===- FloatMode.h - Floating-point mode of a thread ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_FLOATMODE_H
#define BINADE_LIB_RUNTIME_EXECUTION_FLOATMODE_H

#include <xmmintrin.h>

namespace binade {

/// Sets the IEEE mode while in scope: round to nearest even, keep subnormals,
/// mask exceptions. The host process may use another, such as flush to zero.
class IeeeMode {
public:
  IeeeMode() : saved(_mm_getcsr()) {
    if (saved != defaults)
      _mm_setcsr(defaults);
  }
  ~IeeeMode() { _mm_setcsr(saved); }
  IeeeMode(const IeeeMode &) = delete;

  /// Sets the mode of this thread permanently.
  static void set() { _mm_setcsr(defaults); }

private:
  static constexpr unsigned defaults = 0x1f80;
  unsigned saved;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_FLOATMODE_H

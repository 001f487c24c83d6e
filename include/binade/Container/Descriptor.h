//===- Descriptor.h - Owner of a file descriptor ----------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_DESCRIPTOR_H
#define BINADE_CONTAINER_DESCRIPTOR_H

#include <unistd.h>
#include <utility>

namespace binade {

/// Owns a file descriptor; a negative number means none.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }

  explicit operator bool() const { return number >= 0; }
  int get() const { return number; }
  int release() { return std::exchange(number, -1); }

private:
  int number;
};

} // namespace binade

#endif // BINADE_CONTAINER_DESCRIPTOR_H

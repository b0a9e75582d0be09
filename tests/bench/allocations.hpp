// Counts this program's own allocations, by the thread that makes them. hiredis uses malloc, and is not counted.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace bench {
inline thread_local long long allocations = 0;
}

void* operator new(std::size_t size) {
  ++bench::allocations;
  if (void* made = std::malloc(size == 0 ? 1 : size)) return made;
  throw std::bad_alloc{};
}
void operator delete(void* made) noexcept {
  std::free(made);
}
void operator delete(void* made, std::size_t) noexcept {
  std::free(made);
}

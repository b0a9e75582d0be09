// Counts this program's own allocations, by the thread that makes them. hiredis uses malloc, and is not counted.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace bench {
inline thread_local long long allocations = 0;
}

// Not inlined: a compiler that sees through one of a pair finds the other mismatched.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++bench::allocations;
  if (void* made = std::malloc(size == 0 ? 1 : size)) return made;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* made) noexcept {
  std::free(made);
}
[[gnu::noinline]] void operator delete(void* made, std::size_t) noexcept {
  std::free(made);
}

#include "allocations.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t made = 0;
std::atomic<std::ptrdiff_t> in_use{0};

}  // namespace

std::size_t support::allocations_here() noexcept {
  return made;
}

std::ptrdiff_t support::bytes_in_use() noexcept {
  return in_use;
}

// The other forms of new and delete call these, but for those with an alignment, which stay as they are.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* const got = std::malloc(size == 0 ? 1 : size);
  if (got == nullptr) return got;
  ++made;
  in_use += static_cast<std::ptrdiff_t>(::malloc_usable_size(got));
  return got;
}

void* operator new(std::size_t size) {
  void* const got = operator new(size, std::nothrow);
  if (got == nullptr) throw std::bad_alloc{};
  return got;
}

void operator delete(void* gone) noexcept {
  if (gone == nullptr) return;
  in_use -= static_cast<std::ptrdiff_t>(::malloc_usable_size(gone));
  std::free(gone);
}

void operator delete(void* gone, std::size_t) noexcept {
  operator delete(gone);
}

// Every allocation of the program goes through here, so that a test can count them.
#pragma once

#include <cstddef>

namespace support {

// Made by this thread so far.
std::size_t allocations_here() noexcept;

// Bytes of the heap in use, of all threads.
std::ptrdiff_t bytes_in_use() noexcept;

}  // namespace support

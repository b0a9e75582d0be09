// Waits for something that another process or thread does.
#pragma once

#include <chrono>
#include <stdexcept>
#include <thread>

namespace support {

// Throws after 10 s: what is waited for must come.
template <class Condition>
void wait_until(Condition holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  throw std::runtime_error{"what was waited for did not come within 10 s"};
}

}  // namespace support

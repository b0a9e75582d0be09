// Waits for something that another process or thread does.
#pragma once

#include <chrono>
#include <stdexcept>
#include <thread>

namespace support {

// Throws when it has not come `within` that time: what is waited for must come.
template <class Condition>
void wait_until(Condition holds, std::chrono::seconds within = std::chrono::seconds{60}) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error{"what was waited for did not come in time"};
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

}  // namespace support

// Child processes that do one thing each, and are always reaped.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>
#include <vector>

namespace race {

class processes {
 public:
  processes() = default;
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;

  // Those that were not waited for are killed.
  ~processes() {
    for (const pid_t child : children_) ::kill(child, SIGKILL);
    wait();
  }

  // To be called while the process has one thread. The child runs `work` and nothing else of the program: neither
  // another test nor a destructor. What it throws is written to standard error.
  template <class Work>
  void start(const Work& work) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error{errno, std::generic_category(), "fork"};
    if (child > 0) {
      children_.push_back(child);
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      ::_exit(1);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }

  // How many of them did not end with status 0.
  int wait() {
    int failed = 0;
    for (const pid_t child : children_) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed;
    }
    children_.clear();
    return failed;
  }

 private:
  std::vector<pid_t> children_;
};

}  // namespace race

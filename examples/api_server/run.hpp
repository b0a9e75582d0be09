// Runs the server until it is told to stop: Ctrl-C (SIGINT) or SIGTERM.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <iostream>
#include <stdexcept>
#include <string>

#include <httplib.h>

#include "problem.hpp"

namespace api_server {

// Port 0: any free one. Requests that are being answered when the signal comes are answered. Throws std::runtime_error
// when the address cannot be had.
inline void run(httplib::Server& server, const std::string& host, int port) {
  using namespace std::chrono_literals;
  server.set_exception_handler(answer_exception);
  server.set_payload_max_length(64 * 1024);
  server.set_tcp_nodelay(true);  // head and body go out one after the other: 40 ms apart without it
  server.set_keep_alive_max_count(1000);
  server.set_keep_alive_timeout(1);  // seconds: an idle connection holds a thread, and the stop, for so long
  // By default two servers could share one port, each with half of the clients.
  server.set_socket_options([](auto socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });

  // Blocked before there are threads, so that none of them is interrupted: the signals wait for sigwait.
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);

  if (port == 0) {
    port = server.bind_to_any_port(host);
  } else if (!server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port < 0) throw std::runtime_error{"cannot listen at --host " + host + " with this --port: is it taken?"};

  auto listening = std::async(std::launch::async, [&] {
    const bool stopped = server.listen_after_bind();
    kill(getpid(), SIGTERM);  // wakes the wait below when listening ended by itself
    return stopped;
  });
  while (!server.is_running() && listening.wait_for(1ms) != std::future_status::ready) {
  }
  std::cout << "listening at http://" << (host.find(':') == std::string::npos ? host : '[' + host + ']') << ':' << port
            << std::endl;
  int signal = 0;
  sigwait(&stops, &signal);
  server.stop();
  if (!listening.get()) throw std::runtime_error{"listening ended by itself"};
}

}  // namespace api_server

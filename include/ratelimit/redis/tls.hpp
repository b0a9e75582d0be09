// TLS for the Redis store. Including this header makes rediss://, rediss+sentinel:// and rediss+cluster:// known; it
// needs OpenSSL, 1.1.1 or newer (CMake: ratelimit::tls). OpenSSL itself, not hiredis_ssl: so every hiredis will do, the
// old ones too, and each step is back by the check's deadline.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <ratelimit/error.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/tls_engine.hpp>

namespace ratelimit {

// Files are PEM, and read once, by make_tls().
struct tls_options {
  // Whom to trust: a file of certificates, a folder of them as `openssl rehash` leaves it, or both. Neither: the
  // system's (the environment's SSL_CERT_FILE and SSL_CERT_DIR).
  std::string ca_file{};
  std::string ca_directory{};
  // For a server that asks who we are: our certificate, followed by its issuers', and its key, without a password.
  std::string certificate_file{};
  std::string key_file{};
  // The name in the server's certificate. Empty: the host as it was given, which for a cluster's nodes is what the
  // cluster calls them, often an address.
  std::string server_name{};
};

namespace detail {

// The library's own queue of errors must neither speak of others' failures nor keep ours.
inline std::string take_openssl_error() {
  char text[256] = "no reason given";
  if (const unsigned long first = ::ERR_get_error(); first != 0) ::ERR_error_string_n(first, text, sizeof text);
  ::ERR_clear_error();
  return text;
}

class openssl_session final : public tls_session {
 public:
  // `server` is a name, or an IPv4 or IPv6 address: then no SNI is sent, which is for names alone (RFC 6066, 3).
  openssl_session(SSL_CTX* settings, const std::string& server) : ssl_{::SSL_new(settings)} {
    BIO* const in = ::BIO_new(::BIO_s_mem());
    BIO* const out = ::BIO_new(::BIO_s_mem());
    if (!ssl_ || in == nullptr || out == nullptr) {
      ::BIO_free(in);
      ::BIO_free(out);
      return;
    }
    ::BIO_set_mem_eof_return(in, -1);  // empty means that more will come, not the end
    ::SSL_set_bio(ssl_.get(), in, out);
    ::SSL_set_connect_state(ssl_.get());
    X509_VERIFY_PARAM* const check = ::SSL_get0_param(ssl_.get());
    if (::X509_VERIFY_PARAM_set1_ip_asc(check, server.c_str()) == 1) {
      is_ready_ = true;
    } else {
      ::X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      is_ready_ = ::X509_VERIFY_PARAM_set1_host(check, server.c_str(), server.size()) == 1 &&
                  ::SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                             const_cast<char*>(server.c_str())) == 1;
    }
    ::ERR_clear_error();
  }

  bool is_ready() const noexcept { return is_ready_; }

  step shake_hands(std::string& out) override {
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    const bool waits = result != 1 && ::SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ;
    ::ERR_clear_error();
    take_output(out);
    return result == 1 ? step::done : waits ? step::needs_more : step::failed;
  }

  bool put(std::string_view encrypted) override {
    std::size_t written = 0;
    return ::BIO_write_ex(::SSL_get_rbio(ssl_.get()), encrypted.data(), encrypted.size(), &written) == 1 &&
           written == encrypted.size();
  }

  bool encrypt(std::string_view plain, std::string& out) override {
    ::ERR_clear_error();
    std::size_t written = 0;
    const bool done = plain.empty() || ::SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) == 1;
    ::ERR_clear_error();
    take_output(out);
    return done;
  }

  std::error_code decrypt(char* into, std::size_t room, std::size_t& got) override {
    ::ERR_clear_error();
    got = 0;
    if (::SSL_read_ex(ssl_.get(), into, room, &got) == 1) return {};
    const int why = ::SSL_get_error(ssl_.get(), 0);
    ::ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ) return {};
    return why == SSL_ERROR_ZERO_RETURN ? errc::closed : errc::tls;
  }

  bool has_leftover() const noexcept override {
    return ::SSL_pending(ssl_.get()) > 0 || ::BIO_ctrl_pending(::SSL_get_rbio(ssl_.get())) > 0;
  }

 private:
  struct free_ssl {
    void operator()(SSL* raw) const noexcept { ::SSL_free(raw); }
  };

  void take_output(std::string& out) {
    BIO* const from = ::SSL_get_wbio(ssl_.get());
    char bytes[4096];
    std::size_t count = 0;
    while (::BIO_ctrl_pending(from) > 0 && ::BIO_read_ex(from, bytes, sizeof bytes, &count) == 1)
      out.append(bytes, count);
  }

  std::unique_ptr<SSL, free_ssl> ssl_;
  bool is_ready_ = false;
};

class openssl_engine final : public tls_engine {
 public:
  explicit openssl_engine(const tls_options& chosen)
      : settings_{::SSL_CTX_new(::TLS_client_method())}, server_name_{chosen.server_name} {
    const auto require = [](bool done, const char* option, const std::string& value) {
      if (!done) refuse(option, value, "cannot be used: " + take_openssl_error());
    };
    ::ERR_clear_error();
    require(settings_ != nullptr, "tls", "OpenSSL");
    require(::SSL_CTX_set_min_proto_version(settings_.get(), TLS1_2_VERSION) == 1, "tls", "TLS 1.2");
    ::SSL_CTX_set_verify(settings_.get(), SSL_VERIFY_PEER, nullptr);
    const auto or_null = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    if (!chosen.ca_file.empty())
      require(::SSL_CTX_load_verify_locations(settings_.get(), or_null(chosen.ca_file), nullptr) == 1, "ca_file",
              chosen.ca_file);
    if (!chosen.ca_directory.empty())
      require(::SSL_CTX_load_verify_locations(settings_.get(), nullptr, or_null(chosen.ca_directory)) == 1,
              "ca_directory", chosen.ca_directory);
    if (chosen.ca_file.empty() && chosen.ca_directory.empty())
      require(::SSL_CTX_set_default_verify_paths(settings_.get()) == 1, "tls", "the system's list of certificates");
    if (chosen.certificate_file.empty() != chosen.key_file.empty())
      refuse("certificate_file, key_file", "one of them", "is missing");
    if (chosen.certificate_file.empty()) return;
    require(::SSL_CTX_use_certificate_chain_file(settings_.get(), chosen.certificate_file.c_str()) == 1,
            "certificate_file", chosen.certificate_file);
    // OpenSSL would ask on the terminal for a key's password.
    ::SSL_CTX_set_default_passwd_cb(settings_.get(), [](char*, int, int, void*) { return -1; });
    require(::SSL_CTX_use_PrivateKey_file(settings_.get(), chosen.key_file.c_str(), SSL_FILETYPE_PEM) == 1, "key_file",
            chosen.key_file);
  }

  std::unique_ptr<tls_session> begin(const std::string& host) const override {
    auto made = std::make_unique<openssl_session>(settings_.get(), server_name_.empty() ? host : server_name_);
    if (!made->is_ready()) return nullptr;
    return made;
  }

 private:
  struct free_settings {
    void operator()(SSL_CTX* raw) const noexcept { ::SSL_CTX_free(raw); }
  };

  std::unique_ptr<SSL_CTX, free_settings> settings_;
  std::string server_name_;
};

}  // namespace detail

// For redis_options::tls. Certificates are checked, host names too: there is no option that turns that off. TLS 1.2 or
// newer. Throws std::invalid_argument with the option and OpenSSL's reason when a file cannot be read, or is not what
// it should be.
inline tls_context make_tls(const tls_options& chosen = {}) {
  return std::make_shared<const detail::openssl_engine>(chosen);
}

namespace detail {

// A lambda without captures needs no memory: nothing is thrown here. NOLINTNEXTLINE(cert-err58-cpp)
inline const bool tls_is_included = (
    default_tls = [] { return make_tls(); }, true);

}  // namespace detail

}  // namespace ratelimit

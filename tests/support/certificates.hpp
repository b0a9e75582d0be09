// An authority of the test's own, and what it certifies.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace support {

struct pem_files {
  std::string certificate;
  std::string key;
};

// Files in a folder that is removed with the object.
class authority {
 public:
  authority() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ratelimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    directory_ = pattern;
    key_ = new_key();
    root_ = certify(*key_, "authority", "", 3600, nullptr);
    write_certificate(ca_file(), *root_);
  }
  authority(const authority&) = delete;
  authority& operator=(const authority&) = delete;
  ~authority() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string ca_file() const { return directory_ + "/ca.pem"; }
  const std::string& directory() const { return directory_; }

  // Certified for `names` ("DNS:localhost,IP:127.0.0.1") until `seconds` from now; none too long ago are possible.
  pem_files issue(const std::string& names, long seconds = 3600) {
    const std::string base = directory_ + "/" + std::to_string(++issued_);
    const key own = new_key();
    const certificate made = certify(*own, "server", names, seconds, root_.get());
    write_certificate(base + ".pem", *made);
    FILE* const file = std::fopen((base + ".key").c_str(), "w");
    demand(file != nullptr && ::PEM_write_PrivateKey(file, own.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    std::fclose(file);
    return {base + ".pem", base + ".key"};
  }

 private:
  struct free_openssl {
    void operator()(EVP_PKEY* raw) const { ::EVP_PKEY_free(raw); }
    void operator()(X509* raw) const { ::X509_free(raw); }
  };
  using key = std::unique_ptr<EVP_PKEY, free_openssl>;
  using certificate = std::unique_ptr<X509, free_openssl>;

  static void demand(bool done) {
    if (!done) throw std::runtime_error{"OpenSSL made no certificate"};
  }

  static key new_key() {
    key made{::EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")};
    demand(made != nullptr);
    return made;
  }

  certificate certify(EVP_PKEY& of, const char* subject, const std::string& names, long seconds, X509* issuer) {
    certificate made{::X509_new()};
    ::X509_set_version(made.get(), 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), ++serial_);
    ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -24 * 3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), seconds);
    X509_NAME* const name = ::X509_get_subject_name(made.get());
    const auto* const text = reinterpret_cast<const unsigned char*>(subject);
    demand(::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1);
    X509* const by = issuer == nullptr ? made.get() : issuer;
    ::X509_set_issuer_name(made.get(), ::X509_get_subject_name(by));
    ::X509_set_pubkey(made.get(), &of);
    extend(*made, *by, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (!names.empty()) extend(*made, *by, NID_subject_alt_name, names);
    demand(::X509_sign(made.get(), key_.get(), ::EVP_sha256()) > 0);
    return made;
  }

  static void extend(X509& of, X509& issuer, int what, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, &issuer, &of, nullptr, nullptr, 0);
    X509_EXTENSION* const made = ::X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
    demand(made != nullptr);
    ::X509_add_ext(&of, made, -1);
    ::X509_EXTENSION_free(made);
  }

  static void write_certificate(const std::string& path, X509& what) {
    FILE* const file = std::fopen(path.c_str(), "w");
    demand(file != nullptr && ::PEM_write_X509(file, &what) == 1);
    std::fclose(file);
  }

  std::string directory_{};
  int issued_ = 0;
  long serial_ = 0;
  key key_{};
  certificate root_{};
};

}  // namespace support

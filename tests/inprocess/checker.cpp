// The reader of metrics is strict: what a scraper would refuse, it refuses.
#include <string>

#include "catch.hpp"
#include "exposition.hpp"

namespace {

using inprocess::exposition;

std::string refusal(const std::string& text) {
  try {
    exposition{text};
  } catch (const std::runtime_error& why) {
    const std::string full = why.what();
    return full.substr(0, full.find(':'));
  }
  return "";
}

const std::string counter = "# HELP a_total h\n# TYPE a_total counter\n";
const std::string histogram = "# HELP h help\n# TYPE h histogram\n";

}  // namespace

TEST_CASE("The checker takes what is right", "[inprocess]") {
  const exposition one{counter +
                       "a_total{x=\"q\\\"b\\\\n\\n\",y=\"\"} 12\na_total 3\n\n# HELP g h\n# TYPE g gauge\ng 0.5\n" +
                       histogram + "h_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 0.3\nh_count 2\n"};
  CHECK(one.size() == 7);
  CHECK(one.count("a_total", {{"x", "q\"b\\n\n"}, {"y", ""}}) == 12);
  CHECK(one.count("a_total", {}) == 3);
  CHECK(one.total("a_total") == 15);
  CHECK(one.total("a_total", {{"y", ""}}) == 12);
  CHECK(one.families().at("h").type == "histogram");
  CHECK(one.families().at("a_total").help == "h");
}

TEST_CASE("The checker refuses what is wrong", "[inprocess]") {
  CHECK(refusal(counter + "a_total 1") == "the last line does not end");
  CHECK(refusal("a_total 1\n") == "a sample without TYPE");
  CHECK(refusal("# TYPE a_total counter\na_total 1\n") == "TYPE without HELP");
  CHECK(refusal("# HELP a_total h\n# HELP a_total h\n") == "HELP twice");
  CHECK(refusal(counter + "# TYPE a_total counter\n") == "TYPE twice");
  CHECK(refusal("# a comment\n") == "neither HELP nor TYPE");
  CHECK(refusal("# HELP a_total h\n# TYPE a_total number\n") == "an unknown type");
  CHECK(refusal("# HELP a_total a\\b\n") == "an unknown escape");
  CHECK(refusal("# HELP a h\n# TYPE a counter\na 1\n") == "_total is the end of a counter's name");
  CHECK(refusal("# HELP a_total h\n# TYPE a_total gauge\na_total 1\n") == "_total is the end of a counter's name");
  CHECK(refusal("# HELP a_total \n# TYPE a_total counter\na_total 1\n") == "no help");
  CHECK(refusal(counter + "b_total 1\n") == "a sample outside its family");
  CHECK(refusal(counter + "1a_total 1\n") == "no metric name");
  CHECK(refusal(counter + "a.b_total 1\n") == "no space before the value");
  CHECK(refusal(counter + "a_total NaN\n") == "a value that is no plain decimal");
  CHECK(refusal(counter + "a_total -1\n") == "a value that is no plain decimal");
  CHECK(refusal(counter + "a_total 1,000\n") == "a value that is no plain decimal");
  CHECK(refusal(counter + "a_total 1.5\n") == "not a whole number");
  CHECK(refusal(counter + "a_total 1\na_total 1\n") == "the same sample twice");
  CHECK(refusal(counter + "a_total{x=\"1\",x=\"1\"} 1\n") == "the same label twice");
  CHECK(refusal(counter + "a_total{x=\"1\"y=\"1\"} 1\n") == "no comma between labels");
  CHECK(refusal(counter + "a_total{a.b=\"1\"} 1\n") == "a label without a quoted value");
  CHECK(refusal(counter + "a_total{__x=\"1\"} 1\n") == "no label name");
  CHECK(refusal(counter + "a_total{x=\"a\\tb\"} 1\n") == "an unknown escape");
  CHECK(refusal(counter + "a_total{x=\"a\nb\"} 1\n") == "a label that does not end");
  CHECK(refusal(counter + "a_total{x=\"\xff\"} 1\n") == "not UTF-8");
  CHECK(refusal(counter + "a_total{x=\"" + std::string(1, '\0') + "\"} 1\n") == "not UTF-8");
  CHECK(refusal(histogram + "h 1\n") == "a sample outside its family");
  CHECK(refusal(histogram + "h_bucket 1\n") == "a bucket without le");
  CHECK(refusal(histogram + "h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n") == "no bucket +Inf");
  CHECK(refusal(histogram + "h_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 1\n") == "buckets out of order at 1");
  CHECK(refusal(histogram + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n") == "a bucket below the one before it");
  CHECK(refusal(histogram + "h_bucket{le=\"+Inf\"} 1\nh_count 1\n") == "no _sum");
  CHECK(refusal(histogram + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\n") == "no _count");
  CHECK(refusal(histogram + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n") == "_count is not the bucket +Inf");
}

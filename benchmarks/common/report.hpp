// The figures of a benchmark, and the machine on which they were measured.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace protean::bench {

// processor, cores, threads, compiler, date, commit
nlohmann::json machine(int threads);

// The file that --json names. It has "benchmark" and "machine", and what the benchmark adds.
class Report {
 public:
  Report(const char* benchmark, int threads, std::string path)
      : all_{{"benchmark", benchmark}, {"machine", machine(threads)}}, path_(std::move(path)) {}
  nlohmann::json& operator[](const char* key) { return all_[key]; }
  const nlohmann::json& all() const { return all_; }
  // Nothing without a path. A long benchmark calls it after each matrix, so that a run that ends early leaves a file.
  void write() const;

 private:
  nlohmann::json all_;
  std::string path_;
};

double median(std::vector<double> samples);
// The value that this part of the samples doesn't exceed, 1 for the largest.
double quantile(std::vector<double> samples, double part);
double geometric_mean(const std::vector<double>& values);

}  // namespace protean::bench

// Models that tools/train_selectors.py has trained, and their evaluation.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/selectors/features.hpp"

namespace protean {

// A binary tree of decisions. Node 0 is the root, children follow their parents. A feature is rounded to single
// precision before it is compared, as scikit-learn does.
struct DecisionTree {
  struct Node {
    int feature = -1;      // in feature_names; -1: a leaf
    double threshold = 0;  // left: feature <= threshold
    std::int32_t left = 0, right = 0;
    std::vector<double> value;  // of a leaf
  };
  std::vector<Node> nodes;
  const std::vector<double>& operator()(const PatternFeatures& features) const;
};

// base + rate * sum of the trees (gradient boosting), or the mean of the trees (a forest, a single tree).
struct TreeEnsemble {
  bool mean = true;
  std::vector<double> base;
  double rate = 1;
  std::vector<DecisionTree> trees;
  std::vector<double> operator()(const PatternFeatures& features) const;
};

// Probabilities of formats.
struct Classifier {
  std::vector<std::string> classes;
  TreeEnsemble ensemble;
};

// Predicted for one format: ln(product / product of csr) and ln(conversion / product of csr).
struct TimesOfFormat {
  TreeEnsemble product, conversion;
  double deviation = 0;  // of ln(product) on matrices that were left out in training
};

// seconds = entry_seconds * stored entries + row_seconds * rows
struct LinearCost {
  double entry_seconds = 0, row_seconds = 0;
};

struct TrainedModels {
  std::string trained_on;
  std::map<std::string, Classifier, std::less<>> classifiers;                      // by selector
  std::map<std::string, std::map<std::string, TimesOfFormat>, std::less<>> times;  // by selector, by format
  std::map<std::string, LinearCost, std::less<>> linear;                           // by format

  const Classifier& classifier(std::string_view selector) const;
  const std::map<std::string, TimesOfFormat>& times_of(std::string_view selector) const;
};

// Reads the text of a file that tools/train_selectors.py has written. Throws BadFile for a text of another form, for
// features that there are not, and for trees whose nodes do not follow their parents.
TrainedModels parse_trained(std::string_view text, std::string_view file);
// formats/selectors/trained.json, which the build embeds; read at the first call.
const TrainedModels& builtin_trained();

}  // namespace protean

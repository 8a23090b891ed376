#include "formats/selectors/trained.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

#include "core/error.hpp"

namespace protean {

// The text of trained.json. The build makes this constant.
extern const char selectors_trained_text[];

namespace {

using nlohmann::json;

std::vector<double> numbers(const json& list) { return list.get<std::vector<double>>(); }

// A node is [feature, threshold, left, right], or [[values of a leaf]].
DecisionTree read_tree(const json& nodes, const std::vector<int>& features) {
  DecisionTree tree;
  const auto count = static_cast<std::int32_t>(nodes.size());
  if (count == 0) throw BadArgument("a tree has no nodes");
  for (const json& node : nodes) {
    DecisionTree::Node read;
    if (node.at(0).is_array()) {
      read.value = numbers(node.at(0));
    } else {
      read.feature = features.at(node.at(0).get<std::size_t>());
      read.threshold = node.at(1).get<double>();
      read.left = node.at(2).get<std::int32_t>(), read.right = node.at(3).get<std::int32_t>();
      const auto here = static_cast<std::int32_t>(tree.nodes.size());
      if (read.left <= here || read.right <= here || read.left >= count || read.right >= count)
        throw BadArgument("a node of a tree does not follow its parent");
    }
    tree.nodes.push_back(std::move(read));
  }
  return tree;
}

// Of leaves with `outputs` values.
TreeEnsemble read_ensemble(const json& from, const std::vector<int>& features, std::size_t outputs) {
  TreeEnsemble ensemble;
  ensemble.mean = from.at("combine") == "mean";
  ensemble.base = numbers(from.at("base"));
  ensemble.rate = from.at("rate").get<double>();
  for (const json& tree : from.at("trees")) ensemble.trees.push_back(read_tree(tree, features));
  if (ensemble.trees.empty() || ensemble.base.size() != outputs)
    throw BadArgument("an ensemble needs trees and " + std::to_string(outputs) + " base values");
  for (const DecisionTree& tree : ensemble.trees)
    for (const DecisionTree::Node& node : tree.nodes)
      if (node.feature < 0 && node.value.size() != outputs)
        throw BadArgument("a leaf has " + std::to_string(node.value.size()) + " values instead of " +
                          std::to_string(outputs));
  return ensemble;
}

std::vector<int> read_features(const json& names) {
  std::vector<int> features;
  for (const json& name : names) features.push_back(static_cast<int>(feature_index(name.get<std::string>())));
  return features;
}

}  // namespace

const std::vector<double>& DecisionTree::operator()(const PatternFeatures& features) const {
  std::size_t at = 0;
  while (nodes[at].feature >= 0) {
    const Node& node = nodes[at];
    const auto value =
        static_cast<double>(static_cast<float>(features.values[static_cast<std::size_t>(node.feature)]));
    at = static_cast<std::size_t>(value <= node.threshold ? node.left : node.right);
  }
  return nodes[at].value;
}

std::vector<double> TreeEnsemble::operator()(const PatternFeatures& features) const {
  std::vector<double> sum(base.size(), 0);
  for (const DecisionTree& tree : trees) {
    const std::vector<double>& value = tree(features);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += value[i];
  }
  const double factor = mean ? 1 / static_cast<double>(trees.size()) : rate;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = base[i] + factor * sum[i];
  return sum;
}

const Classifier& TrainedModels::classifier(std::string_view selector) const {
  const auto found = classifiers.find(selector);
  if (found == classifiers.end())
    throw BadArgument("there is no trained classifier for selector " + std::string(selector));
  return found->second;
}

const std::map<std::string, TimesOfFormat>& TrainedModels::times_of(std::string_view selector) const {
  const auto found = times.find(selector);
  if (found == times.end())
    throw BadArgument("there are no trained times for selector " + std::string(selector));
  return found->second;
}

TrainedModels parse_trained(std::string_view text, std::string_view file) {
  try {
    const json all = json::parse(text);
    TrainedModels models;
    models.trained_on = all.at("trained_on").get<std::string>();
    for (const auto& [name, from] : all.at("classifiers").items()) {
      Classifier& classifier = models.classifiers[name];
      classifier.classes = from.at("classes").get<std::vector<std::string>>();
      classifier.ensemble =
          read_ensemble(from.at("model"), read_features(from.at("features")), classifier.classes.size());
    }
    for (const auto& [name, from] : all.at("times").items()) {
      const std::vector<int> features = read_features(from.at("features"));
      for (const auto& [format, model] : from.at("formats").items())
        models.times[name][format] = {read_ensemble(model.at("product"), features, 1),
                                      read_ensemble(model.at("conversion"), features, 1),
                                      model.at("deviation").get<double>()};
    }
    for (const auto& [format, cost] : all.at("linear").items())
      models.linear[format] = {cost.at("entry_seconds").get<double>(), cost.at("row_seconds").get<double>()};
    return models;
  } catch (const std::exception& error) {
    throw BadFile(std::string(file), 0, 0,
                  std::string("the trained models cannot be read: ") + error.what() +
                      "; write the file again by tools/train_selectors.py");
  }
}

const TrainedModels& builtin_trained() {
  static const TrainedModels models = parse_trained(selectors_trained_text, "trained.json");
  return models;
}

}  // namespace protean

// Says whether a value obeys a JSON Schema, for the keywords that the schema of problem files has. Another keyword is
// an error, so that none is passed over.
#pragma once
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

namespace protean::test {

class JsonSchema {
 public:
  using Json = nlohmann::ordered_json;

  explicit JsonSchema(const std::string& text) : root_(Json::parse(text)) {}
  const Json& root() const noexcept { return root_; }
  bool accepts(const Json& value) const { return obeys(root_, value); }

  // What a reference points to.
  const Json& resolved(const Json& schema) const {
    if (!schema.is_object() || !schema.contains("$ref")) return schema;
    return root_.at(Json::json_pointer(schema.at("$ref").get<std::string>().substr(1)));
  }

 private:
  static bool has_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "number") return value.is_number();
    if (type == "integer")
      return value.is_number_integer() ||
             (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
    throw std::logic_error("JsonSchema: type " + type);
  }

  // Equal numbers are one value: 1 and 1.0.
  static bool same(const Json& a, const Json& b) { return a == b; }

  // Compiled once.
  const std::regex& regex_of(const std::string& pattern) const {
    const auto found = regexes_.find(pattern);
    return found != regexes_.end() ? found->second
                                   : regexes_.emplace(pattern, std::regex(pattern)).first->second;
  }

  bool obeys(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [word, rule] : schema.items())
      if (!obeys(word, rule, schema, value)) return false;
    return true;
  }

  bool obeys(const std::string& word, const Json& rule, const Json& schema, const Json& value) const {
    static const std::set<std::string> silent = {"$schema", "$defs", "title", "description",
                                                 "default", "then",  "else",  "examples"};
    if (silent.contains(word)) return true;
    if (word == "$ref") return obeys(resolved(schema), value);
    if (word == "type") {
      if (rule.is_string()) return has_type(rule, value);
      bool any = false;
      for (const Json& type : rule) any |= has_type(type, value);
      return any;
    }
    if (word == "enum") {
      bool any = false;
      for (const Json& one : rule) any |= same(one, value);
      return any;
    }
    if (word == "const") return same(rule, value);
    if (word == "allOf" || word == "anyOf" || word == "oneOf") {
      std::size_t count = 0;
      for (const Json& one : rule) count += obeys(one, value) ? 1 : 0;
      return word == "allOf" ? count == rule.size() : word == "anyOf" ? count > 0 : count == 1;
    }
    if (word == "if") {
      const char* const next = obeys(rule, value) ? "then" : "else";
      return !schema.contains(next) || obeys(schema.at(next), value);
    }
    if (word == "minimum") return !value.is_number() || value.get<double>() >= rule.get<double>();
    if (word == "maximum") return !value.is_number() || value.get<double>() <= rule.get<double>();
    if (word == "exclusiveMinimum") return !value.is_number() || value.get<double>() > rule.get<double>();
    if (word == "exclusiveMaximum") return !value.is_number() || value.get<double>() < rule.get<double>();
    if (word == "minLength")
      return !value.is_string() || value.get_ref<const std::string&>().size() >= rule.get<std::size_t>();
    if (word == "pattern")
      return !value.is_string() || std::regex_search(value.get_ref<const std::string&>(),
                                                     regex_of(rule.get_ref<const std::string&>()));
    if (word == "items") {
      if (!value.is_array()) return true;
      for (const Json& item : value)
        if (!obeys(rule, item)) return false;
      return true;
    }
    if (word == "minItems") return !value.is_array() || value.size() >= rule.get<std::size_t>();
    if (word == "maxItems") return !value.is_array() || value.size() <= rule.get<std::size_t>();
    if (word == "maxProperties") return !value.is_object() || value.size() <= rule.get<std::size_t>();
    if (word == "required") {
      for (const Json& key : rule)
        if (value.is_object() && !value.contains(key.get<std::string>())) return false;
      return true;
    }
    if (word == "properties") {
      for (const auto& [key, its] : rule.items())
        if (value.is_object() && value.contains(key) && !obeys(its, value.at(key))) return false;
      return true;
    }
    if (word == "additionalProperties") {
      if (rule != false) throw std::logic_error("JsonSchema: additionalProperties is not false");
      if (!value.is_object()) return true;
      for (const auto& [key, its] : value.items())
        if (!schema.contains("properties") || !schema.at("properties").contains(key)) return false;
      return true;
    }
    throw std::logic_error("JsonSchema: keyword " + word);
  }

  Json root_;
  mutable std::map<std::string, std::regex> regexes_;
};

}  // namespace protean::test

// The parameters of a storage format, by name.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// Values of a format's parameters by name. resolve_params() checks them and fills in defaults.
class FormatParams {
 public:
  FormatParams() = default;
  FormatParams(std::initializer_list<std::pair<const std::string, std::string>> values) : values_(values) {}
  void set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  void set(std::string name, std::int64_t value) { set(std::move(name), std::to_string(value)); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  // For complete parameters only: throw BadArgument for an unknown name or a value that is not an integer.
  std::int64_t integer(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const noexcept { return values_; }
  bool operator==(const FormatParams&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace protean

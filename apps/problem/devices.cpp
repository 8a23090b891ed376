#include "apps/problem/devices.hpp"

#include <utility>

namespace protean::apps {
namespace {

DeviceSource& source() {
  static DeviceSource of_machine{
      [] { return Context::device_count(); },
      [](int number, const DeviceOptions& options) { return Context::device(number, options); }};
  return of_machine;
}

}  // namespace

const DeviceSource& device_source() { return source(); }
DeviceSource set_device_source(DeviceSource next) { return std::exchange(source(), std::move(next)); }

}  // namespace protean::apps

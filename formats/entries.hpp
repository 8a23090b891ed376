// What the file of each format defines, declared from catalogue.def: its entry or its preset, and its device code if it
// has kernels for a device. Private to formats/.
#pragma once
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

namespace entries {
#define PROTEAN_FORMAT(family, name, engine) extern const FormatEntry name;
#define PROTEAN_PRESET(family, name) extern const Preset name;
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
#undef PROTEAN_PRESET
}  // namespace entries

namespace device_code {
#define PROTEAN_FORMAT(family, name, engine) extern const DeviceCode name;
#define PROTEAN_PRESET(family, name) extern const DeviceCode name;
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
#undef PROTEAN_PRESET
}  // namespace device_code

}  // namespace protean::formats

// The files of data/, which the build puts into an array.
#pragma once

namespace protean::apps {

struct PaperText {
  const char *name, *text;
};
extern const PaperText paper_texts[];  // ends with a null name

}  // namespace protean::apps

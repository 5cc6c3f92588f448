#include "gloo_c/status.h"

const char *gloo_status_string(gloo_status status) {
  switch (status) {
#define STATUS_TEXT(name, value, text) \
  case name:                           \
    return text;
    GLOO_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
  }
  return "unknown status";
}

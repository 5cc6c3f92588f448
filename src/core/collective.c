#include "core/collective.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *name;
  bool reduces, rooted;
} collectives[] = {
#define COLLECTIVE(constant, name, reduces, rooted) {name, reduces, rooted},
    GLI_COLLECTIVE_LIST(COLLECTIVE)
#undef COLLECTIVE
};

static bool collective_known(gli_collective collective) {
  return (unsigned)collective < GLI_COLLECTIVES;
}

const char *gli_collective_name(gli_collective collective) {
  return collective_known(collective) ? collectives[collective].name
                                      : "unknown";
}

bool gli_collective_from_name(const char *name, gli_collective *collective) {
  if (name == NULL) return false;
  for (unsigned i = 0; i < GLI_COLLECTIVES; i++) {
    if (strcmp(name, collectives[i].name) != 0) continue;
    *collective = (gli_collective)i;
    return true;
  }
  return false;
}

bool gli_collective_reduces(gli_collective collective) {
  return collective_known(collective) && collectives[collective].reduces;
}

bool gli_collective_counted(gli_collective collective) {
  return collective == GLI_ALLGATHERV || collective == GLI_REDUCE_SCATTERV ||
         gli_collective_pairwise(collective);
}

bool gli_collective_pairwise(gli_collective collective) {
  return collective == GLI_GATHERV || collective == GLI_SCATTERV ||
         collective == GLI_ALLTOALLV;
}

bool gli_collective_rooted(gli_collective collective) {
  return collective_known(collective) && collectives[collective].rooted;
}

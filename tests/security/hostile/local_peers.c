#include "hostile.h"
const hostile_list hostile_local_list = {HOSTILE_LOCAL, NULL, 0};

#include "algorithms/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

/* ---- reading ------------------------------------------------------------- */

enum { WORD = 48 };

typedef struct reader {
  const char *name, *at;
  unsigned line;
  bool forced;
  gli_tuning *tuning;
  size_t room; /* rules */
  gloo_error *error;
} reader;

/* Copies a word for messages: printable, and not too long. */
static void show(const char *from, size_t length, char word[WORD]) {
  size_t n = length < WORD - 1 ? length : WORD - 1;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)from[i];
    word[i] = (char)(c < 0x20 || c >= 0x7f ? '?' : c);
  }
  word[n] = 0;
}

static gloo_status wrong(const reader *r, const char *from, size_t length,
                         const char *what) {
  char word[WORD];
  show(from, length, word);
  char line[24] = "";
  if (!r->forced) snprintf(line, sizeof line, ", line %u", r->line);
  return gli_fail(r->error, GLOO_ERR_INVALID, -1, "%.200s%s: '%s' %s", r->name,
                  line, word, what);
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(reader *r) {
  while (is_blank(*r->at)) r->at++;
}

/* Skips to the next significant character. */
static void skip_to_entry(reader *r) {
  for (;; r->at++) {
    if (*r->at == '#') r->at += strcspn(r->at, "\n");
    if (*r->at == '\n') r->line++;
    if (*r->at != '\n' && *r->at != ';' && !is_blank(*r->at)) return;
  }
}

static size_t word_length(const char *at) {
  return strcspn(at, " \t\r\n;#,:=@-");
}

/* Reads a word; `what` names the expected one in the error. */
static gloo_status take_word(reader *r, const char **word, size_t *length,
                             const char *what) {
  skip_blanks(r);
  *word = r->at;
  *length = word_length(r->at);
  if (*length == 0) return wrong(r, r->at, strcspn(r->at, "\n;#"), what);
  r->at += *length;
  skip_blanks(r);
  return GLOO_OK;
}

static bool tuning_take(reader *r, char c) {
  skip_blanks(r);
  if (*r->at != c) return false;
  r->at++;
  skip_blanks(r);
  return true;
}

/* Reads digits, and with `units` one of K, M, G. */
static bool tuning_read_number(const char *word, size_t length, bool units,
                               uint64_t *number) {
  static const char letters[] = "kKmMgG";
  uint64_t value = 0, factor = 1;
  const char *unit = length > 1 ? strchr(letters, word[length - 1]) : NULL;
  if (units && unit != NULL) {
    factor = (uint64_t)1 << 10 * ((unit - letters) / 2 + 1);
    length--;
  }
  for (size_t i = 0; i < length; i++) {
    if (word[i] < '0' || word[i] > '9') return false;
    if (!gli_mul_u64(value, 10, &value)) return false;
    if (!gli_add_u64(value, (uint64_t)(word[i] - '0'), &value)) return false;
  }
  return length > 0 && gli_mul_u64(value, factor, number);
}

static bool is_word(const char *word, size_t length, const char *text) {
  return strlen(text) == length && memcmp(word, text, length) == 0;
}

/* ---- parts of an entry --------------------------------------------------- */

#define EXAMPLE                                                             \
  "expected COLLECTIVE:SIZES=ALGORITHM, such as allreduce:0-=ring for all " \
  "sizes, or allreduce:0-64K=direct,64K-=ring"

static gloo_status read_collective(reader *r, gli_tuning_rule *rule) {
  const char *word;
  size_t length;
  gloo_status status =
      take_word(r, &word, &length, "found instead of a collective; " EXAMPLE);
  if (status != GLOO_OK) return status;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    if (c == GLI_SENDRECV) continue;
    if (!is_word(word, length, gli_collective_name((gli_collective)c))) {
      continue;
    }
    rule->collective = (gli_collective)c;
    return GLOO_OK;
  }
  return wrong(r, word, length,
               "is not a collective with algorithms; " EXAMPLE);
}

static gloo_status read_where(reader *r, gli_tuning_rule *rule) {
  static const char expected[] = "is not one of shm, tcp, ranks=N";
  const char *word;
  size_t length;
  gloo_status status = take_word(r, &word, &length, expected);
  if (status != GLOO_OK) return status;
  if (is_word(word, length, "shm")) {
    rule->link = GLI_TUNING_SHM;
  } else if (is_word(word, length, "tcp")) {
    rule->link = GLI_TUNING_TCP;
  } else if (is_word(word, length, "ranks") && tuning_take(r, '=')) {
    uint64_t ranks;
    status = take_word(r, &word, &length, "found instead of a number of ranks");
    if (status != GLOO_OK) return status;
    if (!tuning_read_number(word, length, false, &ranks) || ranks == 0 ||
        ranks > UINT32_MAX) {
      return wrong(r, word, length, "is not a number of ranks");
    }
    rule->ranks = (uint32_t)ranks;
  } else {
    return wrong(r, word, length, expected);
  }
  return GLOO_OK;
}

static gloo_status read_size(reader *r, uint64_t *bytes) {
  const char *word;
  size_t length;
  gloo_status status = take_word(r, &word, &length, "found instead of a size");
  if (status != GLOO_OK) return status;
  if (tuning_read_number(word, length, true, bytes)) return GLOO_OK;
  if (*r->at == ':') {
    return wrong(
        r, word, length,
        "found instead of a size; start each collective after ';' or on "
        "a new line");
  }
  return wrong(r, word, length,
               "is not a size range; write allreduce:0-=ring for all sizes, or "
               "FROM-TO in bytes, K, M or G, such as 0-512 or 16K-1M");
}

/* Reads a range; `from` is the first byte after the range before it. */
static gloo_status tuning_read_range(reader *r, uint64_t from,
                                     gli_tuning_rule *rule) {
  const char *begin = r->at;
  gloo_status status = read_size(r, &rule->from);
  if (status != GLOO_OK) return status;
  if (!tuning_take(r, '-')) {
    return wrong(r, begin, strcspn(begin, "\n;#,="),
                 "is not a size range: write FROM-TO, or FROM- without an end");
  }
  uint64_t to = UINT64_MAX;
  bool ends = *r->at != '=';
  if (ends) status = read_size(r, &to);
  if (status != GLOO_OK) return status;
  size_t length = (size_t)(r->at - begin);
  if (rule->from < from) {
    return wrong(r, begin, length,
                 "starts before the previous range ends; ranges must ascend");
  }
  if (to <= rule->from) {
    return wrong(r, begin, length, "is empty: its end is not above its start");
  }
  rule->last = ends ? to - 1 : UINT64_MAX;
  return GLOO_OK;
}

static gloo_status tuning_unknown_algorithm(const reader *r,
                                            gli_collective collective,
                                            const char *word, size_t length) {
  char known[192] = "";
  size_t used = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective != collective) continue;
    int n = snprintf(known + used, sizeof known - used, "%s%s",
                     used > 0 ? ", " : "", gli_algorithms[i].name);
    if (n > 0 && (size_t)n < sizeof known - used) used += (size_t)n;
  }
  known[used] = 0;
  char what[256];
  snprintf(what, sizeof what, "is not an algorithm of %s; valid: %s",
           gli_collective_name(collective), known);
  return wrong(r, word, length, what);
}

static gloo_status read_algorithm(reader *r, gli_tuning_rule *rule) {
  const char *word;
  size_t length;
  if (!tuning_take(r, '=')) {
    return wrong(r, r->at, strcspn(r->at, "\n;#"),
                 "found instead of '=' and an algorithm");
  }
  gloo_status status =
      take_word(r, &word, &length, "found instead of an algorithm");
  if (status != GLOO_OK) return status;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective != rule->collective) continue;
    if (!is_word(word, length, a->name)) continue;
    rule->algorithm = a;
    return GLOO_OK;
  }
  return tuning_unknown_algorithm(r, rule->collective, word, length);
}

/* ---- entries ------------------------------------------------------------- */

static gloo_status tuning_keep(reader *r, const gli_tuning_rule *rule) {
  size_t n = r->tuning->n;
  if (n == GLI_TUNING_MAX_RULES) {
    return gli_fail(r->error, GLOO_ERR_INVALID, -1,
                    "%.200s, line %u: more than %d ranges", r->name, r->line,
                    GLI_TUNING_MAX_RULES);
  }
  if (n == r->room) {
    size_t room = 2 * r->room;
    gli_tuning *more =
        realloc(r->tuning, sizeof *more + room * sizeof *more->rules);
    if (more == NULL) {
      return gli_fail(r->error, GLOO_ERR_NO_MEMORY, -1,
                      "out of memory for %zu choices of algorithms", room);
    }
    r->tuning = more;
    r->room = room;
  }
  r->tuning->rules[r->tuning->n++] = *rule;
  return GLOO_OK;
}

static gloo_status read_entry(reader *r) {
  gli_tuning_rule rule = {.forced = r->forced};
  gloo_status status = read_collective(r, &rule);
  while (status == GLOO_OK && tuning_take(r, '@'))
    status = read_where(r, &rule);
  if (status != GLOO_OK) return status;
  if (!tuning_take(r, ':')) {
    return wrong(r, r->at, strcspn(r->at, "\n;#"),
                 "found instead of ':' and a size range; " EXAMPLE);
  }
  uint64_t from = 0;
  do {
    status = tuning_read_range(r, from, &rule);
    if (status == GLOO_OK) status = read_algorithm(r, &rule);
    if (status == GLOO_OK) status = tuning_keep(r, &rule);
    if (status != GLOO_OK) return status;
    /* A range without an end leaves nothing for later ranges. */
    from = rule.last == UINT64_MAX ? UINT64_MAX : rule.last + 1;
  } while (tuning_take(r, ','));
  if (*r->at == 0 || strchr("\n;#", *r->at) != NULL) return GLOO_OK;
  return wrong(r, r->at, strcspn(r->at, "\n;#"),
               "follows an entry; end entries with ';' or a line break");
}

/* ---- the table ----------------------------------------------------------- */

/* FNV-1a (Fowler, Noll, Vo, 1991). */
static uint64_t tuning_mix(uint64_t hash, uint64_t value) {
  for (int i = 0; i < 8; i++) {
    hash ^= value >> 8 * i & 0xff;
    hash *= UINT64_C(0x100000001b3);
  }
  return hash;
}

static void tuning_finish(gli_tuning *tuning) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < tuning->n; i++) {
    const gli_tuning_rule *rule = &tuning->rules[i];
    hash = tuning_mix(hash, rule->collective);
    hash = tuning_mix(hash, rule->link);
    hash = tuning_mix(hash, rule->ranks);
    hash = tuning_mix(hash, rule->from);
    hash = tuning_mix(hash, rule->last);
    hash = tuning_mix(hash, gli_algorithm_id(rule->algorithm));
    hash = tuning_mix(hash, rule->forced);
  }
  hash = tuning_mix(hash, gli_costs_hash(&tuning->costs));
  tuning->hash = hash != 0 ? hash : 1;
}

gloo_status gli_tuning_parse(const gli_tuning_text *texts, size_t n,
                             gli_tuning **tuning, gloo_error *error) {
  reader r = {.room = 16, .error = error};
  gloo_status status = GLOO_OK;
  r.tuning = malloc(sizeof *r.tuning + r.room * sizeof *r.tuning->rules);
  if (r.tuning == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for choices of algorithms");
  }
  r.tuning->n = 0;
  r.tuning->costs = gli_costs_estimate;
  for (size_t i = 0; i < n && status == GLOO_OK; i++) {
    r.name = texts[i].name;
    r.forced = texts[i].forced;
    r.at = texts[i].text;
    r.line = 1;
    for (skip_to_entry(&r); *r.at != 0 && status == GLOO_OK;
         skip_to_entry(&r)) {
      status = read_entry(&r);
      if (status != GLOO_OK) break;
    }
  }
  if (status == GLOO_OK && r.tuning->n > 0) {
    tuning_finish(r.tuning);
    *tuning = r.tuning;
    return GLOO_OK;
  }
  free(r.tuning);
  if (status == GLOO_OK) *tuning = NULL;
  return status;
}

gloo_status gli_tuning_with_costs(const gli_tuning *rules,
                                  const gli_costs *costs, gli_tuning **tuning,
                                  gloo_error *error) {
  size_t n = rules != NULL ? rules->n : 0;
  gli_tuning *copy = malloc(sizeof *copy + n * sizeof *copy->rules);
  if (copy == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %zu choices of algorithms", n);
  }
  copy->n = n;
  copy->costs = *costs;
  for (size_t i = 0; i < n; i++) copy->rules[i] = rules->rules[i];
  tuning_finish(copy);
  *tuning = copy;
  return GLOO_OK;
}

const gli_algorithm *gli_tuning_find(const gli_tuning *tuning,
                                     const gli_plan_params *p) {
  if (tuning == NULL) return NULL;
  uint64_t bytes = gli_plan_vector_bytes(p);
  gli_tuning_link link =
      p->locality && p->hosts == NULL ? GLI_TUNING_SHM : GLI_TUNING_TCP;
  for (size_t i = 0; i < tuning->n; i++) {
    const gli_tuning_rule *rule = &tuning->rules[i];
    if (rule->collective != p->collective) continue;
    if (rule->link != GLI_TUNING_ANY_LINK && rule->link != link) continue;
    if (rule->ranks != 0 && rule->ranks != p->size) continue;
    if (bytes < rule->from || bytes > rule->last) continue;
    bool suits = p->order == GLI_ORDER_ANY ||
                 gli_algorithm_order(rule->algorithm) >= p->order;
    if (suits || rule->forced) return rule->algorithm;
  }
  return NULL;
}

#include "tools/metrics_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/watch.h"

/* Longest answer of a process. A job of 10,000 ranks has less than 8 MiB for
 * each of its ranks. */
#define ANSWER_BYTES_MOST ((size_t)64 << 20)

typedef enum known_state {
  KNOWN_ANSWERS,
  KNOWN_SILENT,
  KNOWN_DEAD /* its socket has no listener */
} known_state;

/* A rank, and its text if it has answered. */
struct gli_metrics_known {
  char path[GLI_OBSERVE_PATH_BYTES]; /* socket of its process */
  gli_metrics_rank rank;
  known_state state;
  const char *text, *end; /* valid during a reading */
};

typedef struct reading {
  gli_metrics_known *all;
  size_t n, room;
} reading;

static const char reachable_help[] =
    "1 if the rank answered, 0 if it is stopped, silent or dead.";

/* ---- ranks --------------------------------------------------------------- */

static bool reading_add(reading *r, const gli_metrics_known *one) {
  if (r->n == r->room) {
    size_t room = r->room > 0 ? 2 * r->room : 64;
    gli_metrics_known *more = realloc(r->all, room * sizeof *more);
    if (more == NULL) return false;
    r->all = more;
    r->room = room;
  }
  r->all[r->n++] = *one;
  return true;
}

/* Adds the contexts of an answer. Sets *good to false if it is malformed, and
 * then adds none. */
static bool reading_add_answer(reading *r, const gli_watched *w, bool *good) {
  gli_metrics_known one = {.state = KNOWN_ANSWERS};
  size_t before = r->n;
  memcpy(one.path, w->path, sizeof one.path);
  const char *at = w->text;
  *good = at != NULL && strlen(at) == w->bytes;
  while (*good && *at != '\0') {
    one.text = at;
    at = one.end = gli_metrics_check(at, &one.rank);
    *good = at != NULL;
    if (*good && one.rank.rank >= 0 && !reading_add(r, &one)) return false;
  }
  if (!*good) r->n = before;
  return true;
}

/* Adds the ranks that the process had in the last reading, or, if it has never
 * answered, the rank that its socket names. */
static bool reading_add_known(reading *r, const gli_metrics_reader *reader,
                              const gli_watched *w) {
  known_state state = w->state == GLI_WATCH_GONE ? KNOWN_DEAD : KNOWN_SILENT;
  bool found = false;
  for (size_t i = 0; i < reader->n_known; i++) {
    gli_metrics_known one = reader->known[i];
    if (strcmp(one.path, w->path) != 0) continue;
    found = true;
    one.state = state;
    if (!reading_add(r, &one)) return false;
  }
  if (found || w->name.job == 0 || state == KNOWN_DEAD) return true;
  gli_metrics_known one = {.rank = {w->name.job, w->name.rank}, .state = state};
  memcpy(one.path, w->path, sizeof one.path);
  return reading_add(r, &one);
}

/* Adds dead ranks of the last reading whose sockets have been removed. */
static bool reading_add_dead(reading *r, const gli_metrics_reader *reader,
                             const gli_watch *watch) {
  for (size_t i = 0; i < reader->n_known; i++) {
    const gli_metrics_known *one = &reader->known[i];
    bool listed = one->state != KNOWN_DEAD;
    for (size_t k = 0; k < watch->n && !listed; k++)
      listed = strcmp(watch->all[k].path, one->path) == 0;
    if (!listed && !reading_add(r, one)) return false;
  }
  return true;
}

/* Orders by job and rank; the best state of a rank comes first. */
static int known_order(const void *left, const void *right) {
  const gli_metrics_known *a = left, *b = right;
  if (a->rank.job != b->rank.job) return a->rank.job < b->rank.job ? -1 : 1;
  if (a->rank.rank != b->rank.rank) return a->rank.rank < b->rank.rank ? -1 : 1;
  return (a->state > b->state) - (a->state < b->state);
}

/* Keeps one entry for each rank, and dead ranks only while another rank of
 * their job lives. */
static void reading_tidy(reading *r) {
  size_t n = 0, job_at = 0;
  bool lives = false;
  if (r->n > 0) qsort(r->all, r->n, sizeof *r->all, known_order);
  for (size_t i = 0; i < r->n; i++) {
    gli_metrics_known one = r->all[i];
    if (n > job_at && one.rank.job != r->all[job_at].rank.job) {
      if (!lives) n = job_at;
      job_at = n;
      lives = false;
    }
    if (n > job_at && one.rank.rank == r->all[n - 1].rank.rank) continue;
    lives = lives || one.state != KNOWN_DEAD;
    r->all[n++] = one;
  }
  if (!lives) n = job_at;
  r->n = n;
}

/* ---- a page -------------------------------------------------------------- */

static bool reading_page(const reading *r, gli_metrics_page *page) {
  for (size_t i = 0; i < r->n; i++) {
    const gli_metrics_known *one = &r->all[i];
    if (!gli_metrics_page_gauge(page, "gloo_rank_reachable", reachable_help,
                                &one->rank, one->state == KNOWN_ANSWERS))
      return false;
    if (one->state == KNOWN_ANSWERS &&
        !gli_metrics_page_add(page, &one->rank, one->text, one->end))
      return false;
  }
  return true;
}

static bool reading_print(const reading *r, gli_metrics_text *text) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  gli_metrics_page *page = gli_metrics_page_new(host);
  bool good = page != NULL && reading_page(r, page);
  for (int i = 0; good && i < GLI_METRICS_FORMATS; i++) {
    FILE *to = open_memstream(&text->text[i], &text->bytes[i]);
    good = to != NULL;
    if (!good) break;
    good = gli_metrics_page_print(page, (gli_metrics_format)i, to);
    good = fclose(to) == 0 && good;
  }
  gli_metrics_page_free(page);
  return good;
}

/* ---- a reading ----------------------------------------------------------- */

static bool reading_take(reading *r, const gli_metrics_reader *reader,
                         const gli_watch *watch) {
  bool good = true;
  for (size_t i = 0; good && i < watch->n; i++) {
    const gli_watched *w = &watch->all[i];
    bool answered = w->state == GLI_WATCH_ANSWERED;
    if (answered) good = reading_add_answer(r, w, &answered);
    if (good && !answered) good = reading_add_known(r, reader, w);
  }
  good = good && reading_add_dead(r, reader, watch);
  if (good) reading_tidy(r);
  return good;
}

bool gli_metrics_read(gli_metrics_reader *reader, gli_metrics_text *text) {
  gli_watch watch;
  reading r = {.n = 0};
  *text = (gli_metrics_text){.text = {NULL}};
  errno = ENOMEM;
  bool good = reader->directory != NULL
                  ? gli_watch_find_in(&watch, reader->directory)
                  : gli_watch_find(&watch);
  int code = errno;
  watch.answer_most = ANSWER_BYTES_MOST;
  watch.ends = &reader->ends;
  if (good) {
    gli_watch_ask(&watch, "/metrics", reader->patience_s);
    good = reading_take(&r, reader, &watch) && reading_print(&r, text);
    code = ENOMEM;
  }
  gli_watch_free(&watch);
  free(good ? reader->known : r.all);
  if (good) {
    reader->known = r.all;
    reader->n_known = r.n;
  } else {
    gli_metrics_text_free(text);
  }
  errno = code;
  return good;
}

void gli_metrics_text_free(gli_metrics_text *text) {
  for (int i = 0; i < GLI_METRICS_FORMATS; i++) free(text->text[i]);
  *text = (gli_metrics_text){.text = {NULL}};
}

void gli_metrics_reader_end(gli_metrics_reader *reader) {
  free(reader->known);
  reader->known = NULL;
  reader->n_known = 0;
}

#include "tools/metrics_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/metrics_line.h"

const char *const gli_metrics_types[GLI_METRICS_FORMATS] = {
    "text/plain; version=0.0.4; charset=utf-8",
    "application/openmetrics-text; version=1.0.0; charset=utf-8"};

enum { NAME_BYTES = 128, HELP_BYTES = 256, FAMILIES_MOST = 256 };

typedef struct metrics_family {
  char name[NAME_BYTES], help[HELP_BYTES];
  bool counter;  /* otherwise a gauge */
  FILE *to;      /* appends to `samples` */
  char *samples; /* lines, valid after a flush */
  size_t bytes;
} metrics_family;

struct gli_metrics_page {
  char host[512]; /* escaped */
  metrics_family families[FAMILIES_MOST];
  size_t n;
};

/* ---- pages --------------------------------------------------------------- */

static void page_escape(char *to, size_t room, const char *text) {
  size_t used = 0;
  for (; *text != '\0' && used + 3 < room; text++) {
    bool printable = *text >= ' ' && *text <= '~';
    if (*text == '"' || *text == '\\') to[used++] = '\\';
    to[used++] = '?';
    if (printable) to[used - 1] = *text;
  }
  to[used] = '\0';
}

gli_metrics_page *gli_metrics_page_new(const char *host) {
  gli_metrics_page *page = calloc(1, sizeof *page);
  if (page != NULL) page_escape(page->host, sizeof page->host, host);
  return page;
}

void gli_metrics_page_free(gli_metrics_page *page) {
  if (page == NULL) return;
  for (size_t i = 0; i < page->n; i++) {
    (void)fclose(page->families[i].to);
    free(page->families[i].samples);
  }
  free(page);
}

static metrics_family *page_find(gli_metrics_page *page, gli_part_text name) {
  for (size_t i = 0; i < page->n; i++)
    if (gli_part_is(name, page->families[i].name)) return &page->families[i];
  return NULL;
}

/* Returns true for a family that must be left out. */
static bool page_is_full(gli_metrics_page *page, gli_part_text name) {
  if (name.bytes >= NAME_BYTES) return true;
  return page->n == FAMILIES_MOST && page_find(page, name) == NULL;
}

/* Returns the family of that name, which it adds if need be; NULL if out of
 * memory. */
static metrics_family *page_family(gli_metrics_page *page, gli_part_text name) {
  metrics_family *family = page_find(page, name);
  if (family != NULL) return family;
  family = &page->families[page->n];
  family->to = open_memstream(&family->samples, &family->bytes);
  if (family->to == NULL) return NULL;
  memcpy(family->name, name.at, name.bytes);
  page->n++;
  return family;
}

static void family_help(metrics_family *family, gli_part_text help) {
  if (family->help[0] != '\0' || help.bytes >= HELP_BYTES ||
      memchr(help.at, '\\', help.bytes) != NULL)
    return;
  memcpy(family->help, help.at, help.bytes);
}

/* ---- texts --------------------------------------------------------------- */

/* Returns true for a type that is known, and that fits the name. */
static bool line_type_fits(const gli_metrics_line *line) {
  bool counter = gli_part_is(line->text, "counter");
  return (counter || gli_part_is(line->text, "gauge")) &&
         counter == gli_part_ends(line->name, "_total");
}

static void check_info(gli_part_text labels, gli_metrics_rank *rank) {
  gli_part_text name, value;
  while (gli_metrics_label_next(&labels, &name, &value)) {
    char text[24] = "", *end;
    if (value.bytes == 0 || value.bytes >= sizeof text) continue;
    memcpy(text, value.at, value.bytes);
    bool is_rank = gli_part_is(name, "rank");
    if (!is_rank && !gli_part_is(name, "job")) continue;
    uint64_t number = strtoull(text, &end, is_rank ? 10 : 16);
    if (*end != '\0' || number > INT64_MAX) continue;
    if (is_rank && number < INT32_MAX) rank->rank = (int64_t)number;
    if (!is_rank) rank->job = number;
  }
}

const char *gli_metrics_check(const char *text, gli_metrics_rank *rank) {
  gli_part_text family = {"", 0}; /* named by the last type line */
  bool informed = false;
  *rank = (gli_metrics_rank){.rank = -1};
  for (;;) {
    gli_metrics_line line = gli_metrics_line_read(text);
    text = line.next;
    if (line.kind == GLI_METRICS_MALFORMED) return NULL;
    if (line.kind == GLI_METRICS_END) break;
    if (line.kind == GLI_METRICS_TYPE_LINE) {
      if (!line_type_fits(&line)) return NULL;
      family = line.name;
    }
    if (line.kind != GLI_METRICS_SAMPLE) continue;
    if (line.name.bytes != family.bytes ||
        memcmp(line.name.at, family.at, family.bytes) != 0)
      return NULL;
    if (!gli_part_is(line.name, "gloo_rank_info")) continue;
    if (informed) return NULL; /* the text is of two contexts */
    informed = true;
    check_info(line.labels, rank);
  }
  if (!informed || rank->rank < 0) return NULL;
  if (rank->job == 0) rank->rank = -1;
  return text;
}

static void page_labels(const gli_metrics_page *page,
                        const metrics_family *family,
                        const gli_metrics_rank *rank) {
  fprintf(family->to,
          "%s{job=\"%012" PRIx64 "\",host=\"%s\",rank=\"%" PRId64 "\"",
          family->name, rank->job, page->host, rank->rank);
}

static bool page_sample(gli_metrics_page *page, const gli_metrics_line *line,
                        const gli_metrics_rank *rank) {
  static const char *const own[] = {"job", "host", "rank"};
  gli_part_text labels = line->labels, name, value;
  metrics_family *family = page_find(page, line->name);
  if (family == NULL) return true; /* the page is full */
  page_labels(page, family, rank);
  while (gli_metrics_label_next(&labels, &name, &value)) {
    bool replaced = false;
    for (int i = 0; i < 3; i++)
      replaced = replaced || gli_part_is(name, own[i]);
    if (!replaced)
      fprintf(family->to, ",%.*s=\"%.*s\"", (int)name.bytes, name.at,
              (int)value.bytes, value.at);
  }
  fprintf(family->to, "} %.*s\n", (int)line->text.bytes, line->text.at);
  return !ferror(family->to);
}

bool gli_metrics_page_add(gli_metrics_page *page, const gli_metrics_rank *rank,
                          const char *text, const char *end) {
  bool good = true;
  while (good && text < end) {
    gli_metrics_line line = gli_metrics_line_read(text);
    metrics_family *family = NULL;
    text = line.next;
    if (line.kind == GLI_METRICS_SAMPLE) good = page_sample(page, &line, rank);
    if (line.kind > GLI_METRICS_HELP_LINE || page_is_full(page, line.name))
      continue;
    family = page_family(page, line.name);
    if (family == NULL) return false;
    if (line.kind == GLI_METRICS_HELP_LINE) family_help(family, line.text);
    family->counter = gli_part_ends(line.name, "_total");
  }
  return good;
}

bool gli_metrics_page_gauge(gli_metrics_page *page, const char *name,
                            const char *help, const gli_metrics_rank *rank,
                            int value) {
  gli_part_text whole = {name, strlen(name)};
  metrics_family *family = page_family(page, whole);
  if (family == NULL) return false;
  family_help(family, (gli_part_text){help, strlen(help)});
  page_labels(page, family, rank);
  fprintf(family->to, "} %d\n", value);
  return !ferror(family->to);
}

/* ---- printing ------------------------------------------------------------ */

/* Prints the head of a family. OpenMetrics names a family without the suffix of
 * its samples, and has a type for gauges that only carry labels. */
static void family_head(const metrics_family *f, gli_metrics_format format,
                        FILE *to) {
  static const char *const units[] = {"bytes", "seconds"};
  const char *type = f->counter ? "counter" : "gauge";
  gli_part_text name = {f->name, strlen(f->name)};
  if (format == GLI_METRICS_OPEN && f->counter) name.bytes -= strlen("_total");
  if (format == GLI_METRICS_OPEN && !f->counter &&
      gli_part_ends(name, "_info")) {
    name.bytes -= strlen("_info");
    type = "info";
  }
  if (f->help[0] != '\0')
    fprintf(to, "# HELP %.*s %s\n", (int)name.bytes, name.at, f->help);
  fprintf(to, "# TYPE %.*s %s\n", (int)name.bytes, name.at, type);
  for (int i = 0; format == GLI_METRICS_OPEN && i < 2; i++)
    if (gli_part_ends(name, units[i]))
      fprintf(to, "# UNIT %.*s %s\n", (int)name.bytes, name.at, units[i]);
}

bool gli_metrics_page_print(const gli_metrics_page *page,
                            gli_metrics_format format, FILE *to) {
  for (size_t i = 0; i < page->n; i++) {
    const metrics_family *f = &page->families[i];
    if (fflush(f->to) != 0) return false;
    if (f->bytes == 0) continue;
    family_head(f, format, to);
    (void)fwrite(f->samples, 1, f->bytes, to);
  }
  if (format == GLI_METRICS_OPEN) fputs("# EOF\n", to);
  return !ferror(to);
}

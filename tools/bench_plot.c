/* gloo bench --svg: a plot of time against size, on logarithmic axes. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/options.h"
#include "tools/svg.h"

enum {
  WIDTH = 860,
  HEIGHT = 520,
  LEFT = 78,
  RIGHT = 210,
  TOP = 62,
  BOTTOM = 56
};
enum { MOST_X_LABELS = 12 };

struct gli_bench_plot {
  FILE *to;
  const char *path;
  const gli_bench_settings *settings;
  size_t n;
  gli_bench_result points[GLI_BENCH_MAX_SIZES * GLI_BENCH_MAX_ALGORITHMS];
  /* Logarithms, to base 2 of bytes and base 10 of us. */
  double x_low, x_high, y_low, y_high;
};

gli_bench_plot *gli_bench_plot_open(const gli_bench_settings *settings) {
  gli_bench_plot *plot = calloc(1, sizeof *plot);
  if (plot == NULL) {
    fprintf(stderr, "gloo bench: out of memory for a plot\n");
    return NULL;
  }
  plot->settings = settings;
  plot->path = settings->svg;
  plot->to = fopen(plot->path, "w");
  if (plot->to != NULL) return plot;
  fprintf(stderr, "gloo bench: cannot write %s: %s\n", plot->path,
          strerror(errno));
  free(plot);
  return NULL;
}

void gli_bench_plot_add(gli_bench_plot *plot, const gli_bench_result *result) {
  size_t most = sizeof plot->points / sizeof *plot->points;
  if (plot->n < most) plot->points[plot->n++] = *result;
}

/* ---- axes ---------------------------------------------------------------- */

static void find_range(gli_bench_plot *p) {
  p->x_low = p->y_low = INFINITY;
  p->x_high = p->y_high = -INFINITY;
  for (size_t i = 0; i < p->n; i++) {
    const gli_bench_result *r = &p->points[i];
    double x = log2((double)r->bytes);
    p->x_low = fmin(p->x_low, x);
    p->x_high = fmax(p->x_high, x);
    p->y_low = fmin(p->y_low, log10(fmax(r->min_us, 1e-3)));
    p->y_high = fmax(p->y_high, log10(fmax(r->p50_us, 1e-3)));
  }
  p->x_low = floor(p->x_low) - 0.5;
  p->x_high = ceil(p->x_high) + 0.5;
  p->y_low = floor(p->y_low);
  p->y_high = fmax(ceil(p->y_high), p->y_low + 1);
}

static double x_of(const gli_bench_plot *p, double log_bytes) {
  const double left = LEFT, width = WIDTH - LEFT - RIGHT;
  return left + (log_bytes - p->x_low) / (p->x_high - p->x_low) * width;
}

static double y_of(const gli_bench_plot *p, double log_us) {
  double height = HEIGHT - TOP - BOTTOM;
  return HEIGHT - BOTTOM -
         (log_us - p->y_low) / (p->y_high - p->y_low) * height;
}

static void draw_x_axis(const gli_bench_plot *p) {
  int low = (int)ceil(p->x_low), high = (int)floor(p->x_high);
  int step = (high - low) / MOST_X_LABELS + 1;
  for (int x = low; x <= high; x += step) {
    char text[GLI_BYTES_TEXT];
    double at = x_of(p, x);
    gli_svg_line(p->to, "grid", at, TOP, at, HEIGHT - BOTTOM);
    gli_format_bytes((uint64_t)1 << x, text);
    gli_svg_text(p->to, "small", at, HEIGHT - BOTTOM + 18, GLI_SVG_MIDDLE,
                 text);
  }
  gli_svg_line(p->to, "axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT,
               HEIGHT - BOTTOM);
  gli_svg_text(p->to, "label", (LEFT + WIDTH - RIGHT) / 2.0,
               HEIGHT - BOTTOM + 40, GLI_SVG_MIDDLE, "bytes");
}

/* Formats a power of ten of microseconds: "10 us", "1 ms". */
static void time_text(int power, char *text, size_t bytes) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int unit = (power + 3) / 3;
  if (unit > 3) unit = 3;
  snprintf(text, bytes, "%.0f %s", pow(10, power + 3 - 3 * unit), units[unit]);
}

static void draw_y_axis(const gli_bench_plot *p) {
  for (int y = (int)p->y_low; y <= (int)p->y_high; y++) {
    char text[32];
    static const int digits[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
      double at = y_of(p, y + log10(digits[i]));
      if (at < (double)TOP - 0.5) break;
      gli_svg_line(p->to, "grid", LEFT, at, WIDTH - RIGHT, at);
    }
    time_text(y, text, sizeof text);
    gli_svg_text(p->to, "small", LEFT - 8, y_of(p, y) + 4, GLI_SVG_END, text);
  }
  gli_svg_line(p->to, "axis", LEFT, TOP, LEFT, HEIGHT - BOTTOM);
}

/* ---- series -------------------------------------------------------------- */

static const char *series_name(const gli_bench_plot *p, size_t i) {
  const char *name = p->settings->algorithms[i];
  if (p->settings->call.collective == GLI_SENDRECV) return "round trip";
  return name != NULL ? name : "the library's choice";
}

static int compare_bytes(const void *a, const void *b) {
  const gli_bench_result *x = a, *y = b;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Draws the points of an algorithm: medians, and bars down to the fastest
 * iteration. */
static void draw_series(const gli_bench_plot *p, size_t i) {
  gli_svg_point medians[GLI_BENCH_MAX_SIZES];
  char class[] = "s0";
  size_t n = 0;
  class[1] = (char)('0' + i % GLI_SVG_SERIES);
  for (size_t k = 0; k < p->n && n < GLI_BENCH_MAX_SIZES; k++) {
    const gli_bench_result *r = &p->points[k];
    if (r->call.algorithm != p->settings->algorithms[i]) continue;
    medians[n].x = x_of(p, log2((double)r->bytes));
    medians[n].y = y_of(p, log10(fmax(r->p50_us, 1e-3)));
    gli_svg_line(p->to, class, medians[n].x,
                 y_of(p, log10(fmax(r->min_us, 1e-3))), medians[n].x,
                 medians[n].y);
    n++;
  }
  if (n > 0) gli_svg_path(p->to, class, medians, n);
  for (size_t k = 0; k < n; k++)
    gli_svg_mark(p->to, (unsigned)i, medians[k].x, medians[k].y);
  double x = WIDTH - RIGHT + 18, y = TOP + 12 + 20 * (double)i;
  gli_svg_line(p->to, class, x, y, x + 24, y);
  gli_svg_mark(p->to, (unsigned)i, x + 12, y);
  gli_svg_text(p->to, "small", x + 32, y + 4, GLI_SVG_START, series_name(p, i));
}

static void draw(gli_bench_plot *p, const char *title) {
  find_range(p);
  qsort(p->points, p->n, sizeof p->points[0], compare_bytes);
  gli_svg_open(p->to, WIDTH, HEIGHT, title);
  gli_svg_text(p->to, "title", 16, 26, GLI_SVG_START, title);
  gli_svg_text(p->to, "label", 16, 46, GLI_SVG_START,
               "median time of a call; bars reach down to the fastest");
  draw_y_axis(p);
  draw_x_axis(p);
  for (size_t i = 0; i < p->settings->n_algorithms; i++) draw_series(p, i);
  gli_svg_close(p->to);
}

bool gli_bench_plot_close(gli_bench_plot *plot, const char *title) {
  if (plot->n > 0) draw(plot, title);
  bool good = ferror(plot->to) == 0;
  good = fclose(plot->to) == 0 && good;
  if (!good)
    fprintf(stderr, "gloo bench: cannot write %s: %s\n", plot->path,
            strerror(errno));
  free(plot);
  return good;
}

/* A writer of SVG: pictures that are readable on light and dark backgrounds.
 * Sizes are pixels. A class names a style of svg.c:
 *
 *   text       title, label, small, mark (with a halo, over lines)
 *   lines      axis, grid, life, and s0 to s7, the colours of series
 *   areas      band, box, f0 to f7 (the same colours) */
#ifndef GLI_TOOLS_SVG_H
#define GLI_TOOLS_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define GLI_SVG_SERIES 8
#define GLI_SVG_GLYPH 6.7 /* width of a character of class mark or small */

typedef enum gli_svg_anchor {
  GLI_SVG_START,
  GLI_SVG_MIDDLE,
  GLI_SVG_END
} gli_svg_anchor;

/* Begins a picture; `title` is its text for screen readers. */
void gli_svg_open(FILE *to, double width, double height, const char *title);
void gli_svg_close(FILE *to);

/* Begins a group that shows `tip` under the pointer. */
void gli_svg_group(FILE *to, const char *tip);
void gli_svg_end_group(FILE *to);

void gli_svg_text(FILE *to, const char *class, double x, double y,
                  gli_svg_anchor anchor, const char *text);
void gli_svg_line(FILE *to, const char *class, double x1, double y1, double x2,
                  double y2);
/* Draws a horizontal arrow, with a dot at its start. */
void gli_svg_arrow(FILE *to, unsigned series, bool dashed, double x1, double x2,
                   double y);
void gli_svg_rect(FILE *to, const char *class, double x, double y, double width,
                  double height);

typedef struct gli_svg_point {
  double x, y;
} gli_svg_point;

void gli_svg_path(FILE *to, const char *class, const gli_svg_point *points,
                  size_t n);
/* Draws the mark of a series: each has its own shape, too. */
void gli_svg_mark(FILE *to, unsigned series, double x, double y);

#endif

/* gloo plan --svg: ranks as columns, steps as rows, messages as arrows. Arrows
 * of a row that would cross get lines of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_picture.h"
#include "tools/svg.h"
#include "tools/tools.h"

enum {
  MOST_STEPS = 20000,
  LABEL = 26, /* longest label, in characters */
  LEFT = 46,
  HEAD = 62,
  LANE = 24,
  GAP = 8, /* above and below the lines of a row */
  FOOT = 34
};

/* Colours of arrows. */
enum { SENT, COMBINED, SHARED, STYLES };
static const char *const style_texts[STYLES] = {
    "message", "message that is combined with what the rank holds",
    "message about memory that ranks share"};

/* A message, by its sending end, or a local step: what takes room in a row.
 * Sides are in half columns. */
typedef struct drawn {
  uint32_t step, row, lane;
  uint32_t left, right;
} drawn;

typedef struct drawing {
  gli_picture picture;
  drawn *items;
  uint32_t n_items;
  uint32_t *lanes; /* [n_rows] number of lines of each row */
  double column;   /* width */
  bool used[STYLES];
} drawing;

static int style_of(const drawing *d, const gli_picture_step *s) {
  if (s->step->role != GLI_ROLE_BYTES) return SHARED;
  const gli_step *other = d->picture.steps[s->other].step;
  return other->kind == GLI_STEP_RECV_REDUCE ? COMBINED : SENT;
}

static void label_of(const drawing *d, const drawn *item,
                     char label[LABEL + 2]) {
  const gli_picture_step *s = &d->picture.steps[item->step];
  gli_picture_words words;
  char text[GLI_PICTURE_TEXT];
  gli_picture_describe(&d->picture, s, &words);
  bool local = s->other == GLI_PICTURE_NONE;
  snprintf(text, sizeof text, "%s%s%s", local ? words.name : "",
           local ? " " : "", words.ranges);
  char *equals = strstr(text, " = ");
  if (local && equals != NULL) *equals = 0;
  bool fits = strlen(text) <= LABEL;
  snprintf(label, LABEL + 2, "%.*s%s", fits ? LABEL : LABEL - 2, text,
           fits ? "" : "..");
}

/* ---- layout -------------------------------------------------------------- */

static int compare_items(const void *a, const void *b) {
  const drawn *x = a, *y = b;
  if (x->row != y->row) return x->row < y->row ? -1 : 1;
  if (x->left != y->left) return x->left < y->left ? -1 : 1;
  return (x->step > y->step) - (x->step < y->step);
}

static void collect_items(drawing *d) {
  const gli_picture *p = &d->picture;
  for (uint32_t i = 0; i < p->first[p->size]; i++) {
    const gli_picture_step *s = &p->steps[i];
    drawn item = {.step = i, .row = s->row};
    if (s->other == GLI_PICTURE_NONE) {
      item.left = 2 * s->rank + 1; /* one half column more, to stay above 0 */
      item.right = item.left + 2;
    } else {
      uint32_t to = p->steps[s->other].rank;
      if (s->step->kind != GLI_STEP_SEND) continue;
      item.left = 2 * (s->rank < to ? s->rank : to) + 2;
      item.right = 2 * (s->rank < to ? to : s->rank) + 2;
      d->used[style_of(d, s)] = true;
    }
    d->items[d->n_items++] = item;
  }
  qsort(d->items, d->n_items, sizeof *d->items, compare_items);
}

/* Puts each item of a row on the first line that has room. */
static void assign_lanes(drawing *d, uint32_t *ends) {
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < d->n_items; i++) {
    drawn *item = &d->items[i];
    if (i == 0 || item->row != item[-1].row) lanes = 0;
    uint32_t lane = 0;
    while (lane < lanes && ends[lane] > item->left) lane++;
    if (lane == lanes) lanes++;
    ends[lane] = item->right;
    item->lane = lane;
    d->lanes[item->row] = lanes;
  }
}

static bool lay_out(drawing *d) {
  uint32_t n = d->picture.first[d->picture.size];
  d->items = calloc((size_t)n + 1, sizeof *d->items);
  d->lanes = calloc((size_t)d->picture.n_rows + 1, sizeof *d->lanes);
  uint32_t *ends = calloc((size_t)n + 1, sizeof *ends);
  bool good = d->items != NULL && d->lanes != NULL && ends != NULL;
  if (!good) fprintf(stderr, "gloo plan: out of memory\n");
  if (good) {
    collect_items(d);
    assign_lanes(d, ends);
  }
  size_t longest = 7;
  for (uint32_t i = 0; good && i < d->n_items; i++) {
    char label[LABEL + 2];
    label_of(d, &d->items[i], label);
    if (strlen(label) > longest) longest = strlen(label);
  }
  d->column = (double)longest * GLI_SVG_GLYPH + 18;
  free(ends);
  return good;
}

/* ---- drawing ------------------------------------------------------------- */

static double row_height(const drawing *d, uint32_t row) {
  return d->lanes[row] * LANE + 2 * GAP;
}

/* Returns the place of a side or middle of a column. */
static double at_x(const drawing *d, uint32_t half) {
  return (double)LEFT + (half - 1) * d->column / 2;
}

static void draw_item(const drawing *d, const drawn *item, double top) {
  const gli_picture_step *s = &d->picture.steps[item->step];
  double y = top + (double)GAP + (item->lane + 1) * LANE - 6;
  double middle = (at_x(d, item->left) + at_x(d, item->right)) / 2;
  char label[LABEL + 2];
  char tip[GLI_PICTURE_TEXT + 64];
  gli_picture_words words;
  label_of(d, item, label);
  gli_picture_describe(&d->picture, s, &words);
  if (s->other == GLI_PICTURE_NONE) {
    snprintf(tip, sizeof tip, "rank %u, step %u: %s %s", s->rank, s->number,
             words.name, words.ranges);
    gli_svg_group(stdout, tip);
    gli_svg_rect(stdout, "box", at_x(d, item->left) + 3, y - 14, d->column - 6,
                 18);
    gli_svg_text(stdout, "small", middle, y - 1, GLI_SVG_MIDDLE, label);
  } else {
    const gli_picture_step *other = &d->picture.steps[s->other];
    int style = style_of(d, s);
    double from = at_x(d, 2 * s->rank + 2), to = at_x(d, 2 * other->rank + 2);
    snprintf(tip, sizeof tip, "rank %u, step %u, to rank %u, step %u: %s %s",
             s->rank, s->number, other->rank, other->number, words.name,
             words.ranges);
    gli_svg_group(stdout, tip);
    gli_svg_arrow(stdout, (unsigned)style, style == SHARED, from, to, y);
    gli_svg_text(stdout, "mark", middle, y - 4, GLI_SVG_MIDDLE, label);
  }
  gli_svg_end_group(stdout);
}

static void draw_frame(const drawing *d, double width, double bottom) {
  char text[32];
  double top = HEAD;
  for (uint32_t row = 0; row < d->picture.n_rows; row++) {
    if (row % 2 == 0)
      gli_svg_rect(stdout, "band", 0, top, width, row_height(d, row));
    snprintf(text, sizeof text, "%u", row + 1);
    gli_svg_text(stdout, "label", 12, top + row_height(d, row) / 2 + 4,
                 GLI_SVG_START, text);
    top += row_height(d, row);
  }
  for (uint32_t rank = 0; rank < d->picture.size; rank++) {
    double x = at_x(d, 2 * rank + 2);
    gli_svg_line(stdout, "life", x, HEAD - 6, x, bottom);
    snprintf(text, sizeof text, "rank %u", rank);
    gli_svg_text(stdout, "label", x, HEAD - 12, GLI_SVG_MIDDLE, text);
  }
  gli_svg_text(stdout, "label", 12, HEAD - 12, GLI_SVG_START, "step");
}

static void draw_legend(const drawing *d, double y) {
  double x = LEFT;
  for (int style = 0; style < STYLES; style++) {
    if (!d->used[style]) continue;
    gli_svg_arrow(stdout, (unsigned)style, style == SHARED, x, x + 34, y);
    gli_svg_text(stdout, "label", x + 42, y + 4, GLI_SVG_START,
                 style_texts[style]);
    x += 70 + (double)strlen(style_texts[style]) * GLI_SVG_GLYPH;
  }
}

static double legend_width(const drawing *d) {
  double width = LEFT;
  for (int style = 0; style < STYLES; style++)
    if (d->used[style])
      width += 70 + (double)strlen(style_texts[style]) * GLI_SVG_GLYPH;
  return width;
}

static void draw(const drawing *d, const gli_plan_question *q) {
  char title[160];
  gli_picture_title(q, title, sizeof title);
  double bottom = HEAD;
  for (uint32_t row = 0; row < d->picture.n_rows; row++)
    bottom += row_height(d, row);
  double width = at_x(d, 2 * d->picture.size + 1) + 12;
  double least = 24 + (double)strlen(title) * 9;
  if (width < least) width = least;
  if (width < legend_width(d)) width = legend_width(d);
  gli_svg_open(stdout, width, bottom + (double)FOOT, title);
  gli_svg_text(stdout, "title", 12, 24, GLI_SVG_START, title);
  draw_frame(d, width, bottom);
  double top = HEAD;
  for (uint32_t i = 0; i < d->n_items; i++) {
    if (i > 0 && d->items[i].row != d->items[i - 1].row)
      top += row_height(d, d->items[i - 1].row);
    draw_item(d, &d->items[i], top);
  }
  draw_legend(d, bottom + (double)FOOT / 2);
  gli_svg_close(stdout);
}

int gli_plan_svg(const gli_plan_question *q) {
  drawing d = {.n_items = 0};
  if (!gli_picture_make(&d.picture, q, MOST_STEPS)) return GLI_EXIT_FAILED;
  bool good = lay_out(&d);
  if (good) draw(&d, q);
  free(d.items);
  free(d.lanes);
  gli_picture_free(&d.picture);
  return good && fflush(stdout) == 0 ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

/* gloo plan --dot: a graph for Graphviz. A node is a rank between two rows,
 * with the local steps of the row above; an edge is a message of a row. */
#include <stdio.h>

#include "tools/plan_picture.h"
#include "tools/tools.h"

enum { MOST_STEPS = 20000 };

/* Prints the ranks as the first row, in order. */
static void dot_ranks(const gli_picture *p) {
  printf("  { rank=same; step [label=\"step\", shape=plain]\n");
  for (uint32_t rank = 0; rank < p->size; rank++)
    printf("    r%u [label=\"rank %u\", shape=plain, group=r%u]\n", rank, rank,
           rank);
  printf("    step");
  for (uint32_t rank = 0; rank < p->size; rank++) printf(" -> r%u", rank);
  printf(" [style=invis]\n  }\n");
}

/* Prints a node. The texts of steps have neither quotes nor backslashes. */
static void dot_node(const gli_picture *p, uint32_t rank, uint32_t row) {
  bool empty = true;
  printf("    r%u_%u [group=r%u, label=\"", rank, row, rank);
  for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
    gli_picture_words words;
    if (p->steps[i].row != row || p->steps[i].other != GLI_PICTURE_NONE)
      continue;
    gli_picture_describe(p, &p->steps[i], &words);
    printf("%s %s\\l", words.name, words.ranges);
    empty = false;
  }
  printf("\"%s]\n", empty ? ", shape=point" : "");
}

static void dot_rows(const gli_picture *p) {
  printf("  step");
  for (uint32_t row = 0; row < p->n_rows; row++) printf(" -> step%u", row);
  printf(" [style=invis]\n");
  for (uint32_t row = 0; row < p->n_rows; row++) {
    printf("  { rank=same; step%u [label=\"%u\", shape=plain]\n", row, row + 1);
    for (uint32_t rank = 0; rank < p->size; rank++) dot_node(p, rank, row);
    printf("    step%u", row);
    for (uint32_t rank = 0; rank < p->size; rank++)
      printf(" -> r%u_%u", rank, row);
    printf(" [style=invis]\n  }\n");
  }
  for (uint32_t rank = 0; rank < p->size; rank++) {
    printf("  r%u", rank);
    for (uint32_t row = 0; row < p->n_rows; row++)
      printf(" -> r%u_%u", rank, row);
    printf(" [weight=100, color=gray, arrowhead=none]\n");
  }
}

/* Prints the node from which a message of this row starts. */
static void dot_start(uint32_t rank, uint32_t row) {
  if (row == 0) printf("  r%u", rank);
  if (row != 0) printf("  r%u_%u", rank, row - 1);
}

static void dot_messages(const gli_picture *p) {
  for (uint32_t i = 0; i < p->first[p->size]; i++) {
    const gli_picture_step *s = &p->steps[i];
    if (s->other == GLI_PICTURE_NONE || s->step->kind != GLI_STEP_SEND)
      continue;
    const gli_picture_step *other = &p->steps[s->other];
    bool combined = other->step->kind == GLI_STEP_RECV_REDUCE;
    gli_picture_words words;
    gli_picture_describe(p, s, &words);
    dot_start(s->rank, s->row);
    printf(" -> r%u_%u [color=\"%s\", weight=0, label=\"%s\"]\n", other->rank,
           other->row, combined ? "#c04f00" : "#0067a5", words.ranges);
  }
}

int gli_plan_dot(const gli_plan_question *q) {
  gli_picture p;
  char title[160];
  if (!gli_picture_make(&p, q, MOST_STEPS)) return GLI_EXIT_FAILED;
  gli_picture_title(q, title, sizeof title);
  printf(
      "digraph plan {\n  label=\"%s\"; labelloc=t\n"
      "  node [shape=box, fontname=monospace, fontsize=9, margin=0.05]\n"
      "  edge [fontname=monospace, fontsize=8]\n"
      "  nodesep=0.9; ranksep=0.7; splines=line\n",
      title);
  dot_ranks(&p);
  dot_rows(&p);
  dot_messages(&p);
  printf("}\n");
  gli_picture_free(&p);
  return fflush(stdout) == 0 ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

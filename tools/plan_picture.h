/* The plans of all ranks side by side: their messages, and the order of their
 * steps over all ranks. */
#ifndef GLI_TOOLS_PLAN_PICTURE_H
#define GLI_TOOLS_PLAN_PICTURE_H

#include "tools/plan_tool.h"

#define GLI_PICTURE_NONE UINT32_MAX
enum { GLI_PICTURE_TEXT = 640 };

typedef struct gli_picture_step {
  const gli_step *step;
  uint32_t rank, number; /* number in the rank's plan */
  uint32_t row;          /* from 0; those it waits for are in earlier rows */
  uint32_t other;        /* other end of a message, an index into steps[];
                            GLI_PICTURE_NONE for a local step */
} gli_picture_step;

typedef struct gli_picture {
  uint32_t size, n_rows;
  gli_plan **plans; /* [size] */
  uint32_t *first;  /* [size + 1] index of each rank's first step */
  gli_picture_step *steps;
} gli_picture;

/* Makes the plans and finds the rows. Both ends of a message are in the same
 * row. Prints the error and returns false on failure: also for more than
 * `most_steps` steps. */
bool gli_picture_make(gli_picture *picture, const gli_plan_question *question,
                      uint32_t most_steps);
void gli_picture_free(gli_picture *picture);

/* Formats a step in two parts: "SEND" and "OUT[0..25)". */
typedef struct gli_picture_words {
  char text[GLI_PICTURE_TEXT];
  const char *name, *ranges;
} gli_picture_words;
void gli_picture_describe(const gli_picture *picture,
                          const gli_picture_step *step,
                          gli_picture_words *words);

/* Writes one line about the question: "allreduce ring: 8 ranks, ...". */
void gli_picture_title(const gli_plan_question *question, char *text,
                       size_t bytes);

/* Print to standard output, and return the exit status. */
int gli_plan_svg(const gli_plan_question *question);
int gli_plan_dot(const gli_plan_question *question);
/* Prints the plan of one rank, or of all: `rank` is then GLI_PICTURE_NONE. */
int gli_plan_json(const gli_plan_question *question, uint32_t rank);

#endif

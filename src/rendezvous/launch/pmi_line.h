/* The lines of PMI-1: words separated by blanks, each NAME=VALUE, the first of
 * them cmd=. */
#ifndef GLI_RENDEZVOUS_LAUNCH_PMI_LINE_H
#define GLI_RENDEZVOUS_LAUNCH_PMI_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of the first word of that name. False: there is none, it is empty,
 * or has no room. */
bool gli_pmi_line_word(const char *line, const char *name, char *out,
                       size_t room);
/* Parses the value as a number of digits only, of at most `max`. */
bool gli_pmi_line_number(const char *line, const char *name, uint64_t max,
                         uint64_t *number);
bool gli_pmi_number(const char *text, uint64_t max, uint64_t *number);

/* Any text as letters, figures and [.:_-], which no launcher takes for
 * something else. What is written to `out` from text[*at] on has at most room -
 * 1 bytes; *at moves on. */
void gli_pmi_escape(const char *text, size_t *at, char *out, size_t room);
/* Append what `escaped` stands for to out[*used]. False: it is not so written,
 * or has no room. */
bool gli_pmi_unescape(const char *escaped, char *out, size_t *used,
                      size_t room);

#endif

/* The lines of PMI-1: words separated by blanks, each NAME=VALUE; the first is
 * cmd=. */
#ifndef GLI_RENDEZVOUS_LAUNCH_PMI_LINE_H
#define GLI_RENDEZVOUS_LAUNCH_PMI_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gets the value of the first word of that name. Returns false if there is
 * none, it is empty, or it exceeds `room`. */
bool gli_pmi_line_word(const char *line, const char *name, char *out,
                       size_t room);
/* Parses the value as a number of digits only, of at most `max`. */
bool gli_pmi_line_number(const char *line, const char *name, uint64_t max,
                         uint64_t *number);
bool gli_pmi_number(const char *text, uint64_t max, uint64_t *number);

/* Escapes text as letters, digits and [.:_-], which have no meaning to
 * launchers. It writes at most room - 1 bytes to `out`, from text[*at] on, and
 * advances *at. */
void gli_pmi_escape(const char *text, size_t *at, char *out, size_t room);
/* Appends the unescaped text to out[*used]. Returns false if `escaped` is
 * malformed or exceeds `room`. */
bool gli_pmi_unescape(const char *escaped, char *out, size_t *used,
                      size_t room);

#endif

/* Text from peers, stores, files and the environment, before a person sees it.
 */
#ifndef GLI_CORE_PRINTABLE_H
#define GLI_CORE_PRINTABLE_H

/* Put a blank in place of whatever a terminal could take for a command, or a
 * log for the end of a line: the control characters of ASCII, and those from
 * U+0080 to U+009F, be they encoded in UTF-8 or single bytes (as which a
 * terminal of 8-bit characters obeys them). All other UTF-8 stays. */
void gli_make_printable(char *text);

#endif

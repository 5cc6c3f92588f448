/* A signal that makes the observing thread write traces (GLOO_TRACE_SIGNAL). */
#ifndef GLI_OBSERVE_OBSERVE_SIGNAL_H
#define GLI_OBSERVE_OBSERVE_SIGNAL_H

#include "gloo_c/status.h"

/* Installs a handler that writes `word` to `pipe`, unless that signal has it
 * already. GLOO_ERR_BUSY: the program has a handler for the signal, or another
 * signal was set before. The observer's lock must be held. */
gloo_status gli_observe_signal_catch(int number, int pipe, char word,
                                     gloo_error *error);
/* Removes the handler, unless the program has replaced it meanwhile, and waits
 * for threads that are in it. */
void gli_observe_signal_release(void);
/* Removes the handler in a forked child, where no other thread exists. */
void gli_observe_signal_forget(void);

#endif

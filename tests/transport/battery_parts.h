/* Functions shared by the parts of the battery's stand-in for the engine. */
#ifndef TESTS_TRANSPORT_BATTERY_PARTS_H
#define TESTS_TRANSPORT_BATTERY_PARTS_H

#include "battery.h"

extern const gli_upcalls bat_upcalls;

/* Removes and frees a post whose request is done. */
void bat_post_done(bat_pair *pair, bat_post *post);
/* Offers posts again that were not taken yet. */
void bat_offer_again(bat_pair *pair);
/* Frees all posts of a ring. */
void bat_drop_posts(bat_post *ring);

#endif

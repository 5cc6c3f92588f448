/* What the parts of the battery's stand-in for the engine share. */
#ifndef TESTS_TRANSPORT_BATTERY_PARTS_H
#define TESTS_TRANSPORT_BATTERY_PARTS_H

#include "battery.h"

extern const gli_upcalls bat_upcalls;

/* One that was taken is done. */
void bat_post_done(bat_pair *pair, bat_post *post);
/* Offer what was not taken yet once more. */
void bat_offer_again(bat_pair *pair);
/* Forget all of a ring. */
void bat_drop_posts(bat_post *ring);

#endif

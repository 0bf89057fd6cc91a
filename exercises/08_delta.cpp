// 08: one step of the gated delta rule (lesson C).
//
//   S <- a S + beta f^T (v - f (a S)),   y = g S
//
// f and g are k and q, each divided by the sum of its numbers. S: F rows of M; k, q: F features,
// above 0; v, y: M numbers. a: what is left of the state; beta: how much of the error is corrected.
#include "exercise.h"

void delta_step(MutableRows S, Row k, Row v, double a, double beta, Row q, MutableRow y) {
  (void)S, (void)k, (void)v, (void)a, (void)beta, (void)q, (void)y;  // yours
}

// The time of messages between ranks.
#pragma once

namespace linea::bench {

// A message of n bytes takes alpha + n / beta seconds.
struct Network {
  double alpha = 0, beta = 1e9;
};

// The largest of the ranks' numbers, on all.
double slowest(double seconds);

// By messages from rank 0 to rank 1 and back; the same on all ranks, of which there are several.
Network measure_network();

}  // namespace linea::bench

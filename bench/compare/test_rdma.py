"""Tests of the comparison with perftest."""

import unittest

import rdma
import testing


def one_round(**changed):
    return {"round_trip": 120.0, "send_lat": 100.0, "stream_alloc": 90.0, "stream_malloc": 60.0,
            "write_bw": 100.0, **changed}


class Rdma(unittest.TestCase):
    def test_results_of_perftest_are_the_last_line_of_numbers(self):
        said = """ RDMA_Write BW Test
 TX depth        : 30
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 4194304    30               99.04              80.01  \t\t   0.000020
---------------------------------------------------------------------------------------
"""
        self.assertEqual(rdma.figures_of(said), [4194304, 30, 99.04, 80.01, 0.00002])

    def test_perftest_without_results_is_an_error(self):
        with self.assertRaises(SystemExit):
            rdma.figures_of("Couldn't connect to 127.0.0.1:18515\n 4 5\n")

    def test_ratios_are_within_a_round(self):
        slow = one_round(round_trip=480.0, send_lat=400.0)
        line = rdma.row(rdma.FIGURES[0], [one_round(), slow, one_round(round_trip=140.0)])
        self.assertIn("| 140.0 | 100.0 | us | 1.20 | 1.20 to 1.40 | <= 1.5: reached |", line)

    def test_goals_are_missed_in_either_direction(self):
        rounds = [one_round(round_trip=151.0, stream_alloc=80.0, stream_malloc=79.0)]
        verdicts = [rdma.row(figure, rounds).rsplit(" ", 2)[1] for figure in rdma.FIGURES]
        self.assertEqual(verdicts, ["MISSED", "reached", "MISSED"])


if __name__ == "__main__":
    testing.main()

"""Ports of servers that tests and benchmarks start."""

import socket

from components.integrations.server_process import free_port

LINUX_FIRST_CLIENT_PORT = 32768  # net.ipv4.ip_local_port_range, as the kernel sets it


def test_no_client_can_be_given_a_port_that_a_server_is_about_to_take():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert max(ports) + 10000 < LINUX_FIRST_CLIENT_PORT


def test_a_taken_port_and_one_whose_neighbour_is_taken_are_left_out():
    first = free_port()
    with socket.socket() as other, socket.socket() as neighbour:
        other.bind(("127.0.0.1", first + 1))
        neighbour.bind(("127.0.0.1", first + 10002))
        other.listen()
        neighbour.listen()
        assert free_port() not in (first, first + 1, first + 2)

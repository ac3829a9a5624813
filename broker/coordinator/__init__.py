"""Group and transaction coordinators: state kept in internal topics, served from memory."""

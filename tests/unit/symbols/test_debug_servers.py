"""Which debug-file servers the variables of debuginfod name, and what asking them may cost."""

from prospect.symbols.naming_options import debug_servers


class TestVariables:
    def read(self, budget_s=30.0, **variables):
        return debug_servers(variables, budget_s)

    def test_without_the_variable_nobody_is_asked(self):
        assert self.read() is None
        assert self.read(DEBUGINFOD_URLS="") is None
        assert self.read(DEBUGINFOD_URLS=" \n") is None
        assert self.read(DEBUGINFOD_URLS="ima:enforcing") is None

    def test_with_no_time_nobody_is_asked(self):
        assert self.read(0.0, DEBUGINFOD_URLS="http://a") is None

    def test_addresses_are_asked_in_their_order_each_once(self):
        found = self.read(DEBUGINFOD_URLS="https://b/x  ima:ignore http://a\thttps://b/x")
        assert found.urls == ("https://b/x", "http://a")
        assert found.notes == ()

    def test_what_is_no_web_address_is_said(self):
        found = self.read(DEBUGINFOD_URLS="file:///x http://a")
        assert found.urls == ("http://a",)
        assert found.notes == (
            "DEBUGINFOD_URLS: file:///x is not an http or https address and was left out.",
        )

    def test_limits_are_those_of_elfutils_variables_within_ours(self):
        given = {"DEBUGINFOD_URLS": "http://a"}
        usual = self.read(**given)
        assert (usual.prompt_s, usual.whole_s, usual.most_bytes) == (10.0, 30.0, 512 << 20)
        given |= {"DEBUGINFOD_TIMEOUT": "3", "DEBUGINFOD_MAXTIME": "7", "DEBUGINFOD_MAXSIZE": "99"}
        found = self.read(**given)
        assert (found.prompt_s, found.whole_s, found.most_bytes) == (3.0, 7.0, 99)
        given = dict.fromkeys(given, str(1 << 40)) | {"DEBUGINFOD_URLS": "http://a"}
        found = self.read(5.0, **given)
        assert (found.prompt_s, found.whole_s, found.most_bytes) == (5.0, 5.0, 1 << 30)
        given = dict.fromkeys(given, "-1") | {"DEBUGINFOD_URLS": "http://a"}
        assert self.read(**given) == usual

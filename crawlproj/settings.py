"""Every setting once, grouped, each with its reason.

Rules: a setting of ours is listed here even when it is unset; `crawlproj/config.py` reads and
checks it, nobody else does. Components are named as strings, in the order they run. This module
imports nothing of the project and starts nothing: scrapyd imports it for every `listspiders`.
"""

import os

from scrapy.settings import default_settings

BOT_NAME = "crawlproj"
SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"
COMMANDS_MODULE = "crawlproj.commands"

# --- where things are -------------------------------------------------------------------------

REDIS_URL = os.environ.get("REDIS_URL")  # unset: an embedded Valkey, shared on this machine
DATABASE_URL = os.environ.get("DATABASE_URL")  # unset: an embedded PostgreSQL
CRAWLPROJ_HOME = os.environ.get("CRAWLPROJ_HOME")  # unset: .crawlproj beside scrapy.cfg

# --- the crawl --------------------------------------------------------------------------------

CRAWL_NAME = None  # unset: every `scrapy crawl` is a new crawl, <spider>-<time>
CRAWL_JOIN = False  # True: only ever join an unsealed run of CRAWL_NAME
CRAWL_ALLOW = None  # unset: every URL; domains and regular expressions, one a line or as a list
CRAWL_DENY = None  # goes before CRAWL_ALLOW; these two and MAX_DEPTH are a run's own from its creation on
MAX_DEPTH = None  # links from a seed; unset: any number, 0: the seeds alone
WORKER_ID = None  # unset: <host>-<pid>
LEAVE_WHEN_PAUSED = False  # True: a worker leaves a paused run, for other crawls wait for it
CLOSE_GRACE_SECONDS = 30  # what a worker that is to end waits for requests under way
CRAWL_PHASE_SECONDS = 30  # what those who listen to an event of a crawl's life may take

MAX_TIME_SECONDS = 0  # soft limits: 0 is unlimited
MAX_TARGET = 0
MAX_RESULT = 0
MAX_BYTES = 0
MAX_URLS = 0  # what is let in at all, seeds included
EARLY_STOP_QUEUE = (
    "release"  # what a limit leaves queued; dump: to a file, keep: for the next run to go on with
)

# --- politeness -------------------------------------------------------------------------------

USER_AGENT = "crawlproj (+https://crawlproj.invalid; set USER_AGENT to name yourself)"
ROBOTSTXT_OBEY = True
MIN_INTERVAL_MS = 1000  # between two starts on one host, for the whole fleet
MIN_INTERVAL_MS_BY_LANGUAGE = None  # {"ja": 2000} in its place there; no language makes a server weak
HOST_MAX_IN_FLIGHT = 1  # as in Heritrix: one at a time is what nobody complains about
MAX_CONCURRENT_COUNT = 32  # what one worker may have in flight: the one brake on cost
ROBOTS_CACHE_SECONDS = 86_400  # RFC 9309: not longer than 24 hours
ROBOTS_RETRY_SECONDS = 60  # how long an unreachable robots.txt means "disallow"
DOMAIN_PROFILE_SECONDS = 604_800  # a domain's language and crawl-delay are remembered for a week
CRAWL_DELAY_MAX_SECONDS = 300  # a longer crawl-delay is cut to this, as Heritrix does

# --- frontier ---------------------------------------------------------------------------------

MAX_ATTEMPTS = 5  # Heritrix tries 30 times; a crawl that ends the same day wants fewer
LEASE_SECONDS = 60  # a dead worker holds a URL no longer
FRONTIER_SEEN_FILTER = (
    "exact"  # or bloom: half the memory, and it takes a new URL for a seen one now and then
)
FRONTIER_SEEN_SHARDS = 16_384  # fixed at creation; 512 fingerprints each stay compact: 8 million
FRONTIER_BLOOM_CAPACITY = 10_000_000  # URLs at which a Bloom filter reaches its error rate; fixed, too
FRONTIER_BLOOM_ERROR = 1e-7  # 34 bits a URL
FRONTIER_PARTITIONS = 1  # parts with a hash tag each, for a Redis Cluster; fixed, too
FRONTIER_SESSION_BALANCE = 3000  # cost a host may spend before another host has its turn
FRONTIER_ERROR_PENALTY = 100  # cost added by a final failure
FRONTIER_TOTAL_BUDGET = -1  # cost after which a host retires; negative is unlimited
FRONTIER_COST_POLICY = "unit"  # zero, unit, wag or anti-calendar
FRONTIER_PRECEDENCE = 1  # of a host that has none of its own; lower is sooner
FRONTIER_PRECEDENCE_FLOOR = 255  # hosts at it or above are never activated, as in Heritrix
FRONTIER_HOLD_QUEUES = True  # False: no host waits inactive, all of them take turns
FRONTIER_SNOOZE_DEACTIVATE_MS = 300_000  # a host that waits longer goes behind those that could go on
FRONTIER_DELAY_PRESET = "none"  # or heritrix: factor 5, 3 to 30 seconds, from the end of a fetch
FRONTIER_DELAY_FACTOR = None  # unset: that of the preset
FRONTIER_MIN_DELAY_MS = None
FRONTIER_MAX_DELAY_MS = None
FRONTIER_HOST_BANDWIDTH_KB = 0  # a second; 0 is no cap
FRONTIER_TOTAL_BANDWIDTH_KB = 0
FRONTIER_PAUSE_AT_START = False  # True: nothing is fetched before `scrapy resume`
FRONTIER_PAUSE_AT_FINISH = False  # True: with nothing left to do it waits for more, until `scrapy resume`
FRONTIER_READY_BACKLOG = 50  # hosts kept ready; the others wait inactive
FRONTIER_RETRY_DELAY_MS = 5_000  # first step of the exponential delay
FRONTIER_RETRY_DELAY_MAX_MS = 900_000  # its cap, also for Retry-After
FRONTIER_MAX_KILLS = 10  # a URL leased to this many workers that died goes to the dead letters
FRONTIER_MAX_OUTLINKS = 6000  # per page, as in Heritrix
FRONTIER_EMBED_HOPS = 1  # embeds so many hops from a page go before its links
FRONTIER_QUEUE_ASSIGNMENT = "hostname"  # or registered-domain, surt, ip, bucket:N; fixed at creation
FRONTIER_FORCED_QUEUE = None  # a name: every URL waits in this one queue; fixed, too
FRONTIER_HOST_GROUPS = None  # {"name": ["a.example", "*.b.example"]}: hosts of one server; fixed, too
FRONTIER_CANONICAL_RULES = ["escapes", "query_order"]  # which URLs are one; fixed, too
FRONTIER_SOURCE_TAG_SEEDS = False  # True: a start request's URL is the tag of all that is found from it
FRONTIER_NOFOLLOW = "obey"  # or ignore
FRONTIER_IGNORED_EXTENSIONS = None  # unset: what Scrapy's link extractors leave out
FRONTIER_DUMP_PENDING_AT_CLOSE = False  # True: what is left when a run is sealed goes to a file
FRONTIER_RECOVERY_LOG = True  # links are kept with their pages; `scrapy rebuild` needs them
FRONTIER_SEEN_CACHE = 200_000  # fingerprints a worker remembers, to spare Redis known links

REFERRER_POLICY = "crawlproj.referrer.ReferrerPolicy"  # Scrapy's default, once per page, not per link
GC_THRESHOLD = 50_000  # objects between two collections; Python's 700 cost a sixth of a crawl. 0 leaves it

COOKIES_SHARED = True  # a session that one worker was given is that of all workers of the run
COOKIES_MAX_DOMAINS = 5_000  # whose cookies a jar keeps, those used last: about 2 KB for each cookie

# --- the next run -----------------------------------------------------------------------------

REVISIT_POLICY = "fixed"  # or adaptive: a page that changes is visited more often than one that does not
REVISIT_INTERVAL_SECONDS = 0  # after a visit; 0: every known page is due in the next run
REVISIT_MIN_SECONDS = 3_600  # of adaptive: nobody has a site crawled anew more often than hourly
REVISIT_MAX_SECONDS = 7_776_000  # 90 days, as Nutch's db.fetch.interval.max: after that any page is due

# --- what is stored ---------------------------------------------------------------------------

EMPTY_BELOW_CHARACTERS = 1  # of main text: a page of one word is one that somebody has written
BODY_STORE = None  # unset: in the database; or a URL that fsspec knows
FETCH_RESULT_SECONDS = 86_400  # what was found last at a URL, for others to look up: half a KB each; 0: none

# --- rendering --------------------------------------------------------------------------------

RENDER_MODE = "off"
CHROMIUM_PATH = None

# --- what runs, in order ----------------------------------------------------------------------

SCHEDULER = "crawlproj.scheduler.FrontierScheduler"

# A page over libcurl costs half a millisecond less than over Twisted: a fifth of all that it costs.
DOWNLOAD_HANDLERS_BASE = {
    **default_settings.DOWNLOAD_HANDLERS_BASE,
    "http": "crawlproj.downloads.handler.CurlDownloadHandler",
    "https": "crawlproj.downloads.handler.CurlDownloadHandler",
}

# In the _BASE settings, so that a spider's own `custom_settings` add to these instead of taking their place.
DOWNLOADER_MIDDLEWARES_BASE = {
    **default_settings.DOWNLOADER_MIDDLEWARES_BASE,
    # Ours keeps robots.txt for the fleet and holds requests until it is known; Scrapy's lets
    # concurrent first requests to a host through.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "middlewares.admission.AdmissionMiddleware": 90,
    "middlewares.robots.RobotsMiddleware": 100,
    "middlewares.health.HealthMiddleware": 540,
    # Ours hands the request back to the frontier; Scrapy's retries at once, in this process.
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "middlewares.retry.RetryMiddleware": 550,
    # Ours does not decode a page that does not hold the word.
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "middlewares.metarefresh.MetaRefreshMiddleware": 580,
    # Ours tells when a compressed body ends early; Scrapy's returns what there is as if it were all. What
    # grows large is unpacked in a thread.
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "middlewares.compression.CompressionMiddleware": 590,
    # Ours takes an answer that leads nowhere for what it is; Scrapy's asks for the page again, or breaks.
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "middlewares.redirect.RedirectMiddleware": 600,
    # Behind the redirects, which copy the headers: validators of one URL are no other's.
    "middlewares.conditional.ConditionalMiddleware": 610,
    # Ours does not fetch a list from the Internet, with the event loop standing still, to read a cookie.
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    "middlewares.cookies.CookiesMiddleware": 700,
    "middlewares.throttle.ThrottleMiddleware": 990,  # nearest the wire: nothing passes it by
}

SPIDER_MIDDLEWARES_BASE = {
    **default_settings.SPIDER_MIDDLEWARES_BASE,
    # It warns of meta that is handed on whole; the codec leaves out what must not be.
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
    "middlewares.page.PageMiddleware": 5,  # nearest the engine: it sees what all others let out
}

ITEM_PIPELINES_BASE = {
    # Before a spider's own pipelines, whose orders are 0 to 1000 by custom (Scrapy's manual puts its
    # FilesPipeline at 1): a page object goes no further than report, and none of theirs may drop one.
    "pipelines.classify.ClassifyPipeline": -30,
    "pipelines.store.StorePipeline": -20,
    "pipelines.report.ReportPipeline": -10,
}

EXTENSIONS_BASE = {
    **default_settings.EXTENSIONS_BASE,
    "extensions.lifecycle.LifecycleExtension": 10,
    "extensions.leftovers.LeftoversExtension": 15,
    "extensions.early_stop.EarlyStopExtension": 20,
    "extensions.pace.PaceExtension": 25,
    "extensions.progress.ProgressExtension": 30,
    "scrapy.extensions.logstats.LogStats": None,  # progress says the same and more, as often
    "scrapy.extensions.remote_control.RemoteControl": None,  # is off, and imports a web server all the same
}
PROGRESS_ENABLED = True  # False: no live line, no line a minute

# --- Scrapy's own, where its default does not fit ---------------------------------------------

STATS_CLASS = "crawlproj.stats.StatsCollector"  # Scrapy's own, without what it does at every count
TELNETCONSOLE_ENABLED = False  # runs code that is sent to it
REMOTE_CONTROL_ENABLED = False  # the same
CONCURRENT_REQUESTS = 0  # MAX_CONCURRENT_COUNT and the frontier say how many
CONCURRENT_REQUESTS_PER_DOMAIN = 1024  # HOST_MAX_IN_FLIGHT does; Scrapy's would only queue twice
DOWNLOAD_DELAY = 0  # the throttle's work
CONCURRENT_ITEMS = 1  # 100 tasks a response cost more than the parsing itself
DOWNLOAD_TIMEOUT = 60
DOWNLOAD_MAXSIZE = 64 * 1024 * 1024  # a page object is a page, not a disk image
DOWNLOAD_WARNSIZE = 16 * 1024 * 1024
LOG_LEVEL = "INFO"  # a line for every page is what the fetch table is for

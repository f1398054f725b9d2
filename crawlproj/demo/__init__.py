"""The built-in site: a little newspaper that shows a crawler everything the web does to it.

    async with DemoSite() as site:
        print(site.url)

| path                       | what it does                                | first crawl               |
|----------------------------|---------------------------------------------|---------------------------|
| most pages                 | 200 with validators, 304 to them            | done, then not_modified   |
| /shop/?colour=..&size=..   | linked twice, the query in another order    | done, once                |
| /news/ferry#vote           | linked with and without a fragment          | done, once                |
| /archive/?page=1 … 3       | pages that link to the next one             | done                      |
| /live, /welcome            | 200 without validators                      | done, and again           |
| /welcome                   | 302 to itself with a cookie, then 200       | done                      |
| /slow                      | 200 after a second                          | done                      |
| /fr, /ja                   | ISO-8859-1 by header, Shift_JIS by meta tag | done                      |
| /zh                        | Chinese, in UTF-8                           | done                      |
| /api/tides.json, /press.txt, /sitemap.xml | text that is no HTML         | done                      |
| /harbour, /price-list      | a picture and a PDF, under names without an ending | done, text_length null |
| /app/                      | an empty shell and a script that adds nothing | empty                   |
| /app/tides                 | built by a script from /api/tides.json      | empty; done when rendered |
| /lighthouse                | 301 to a page that is linked elsewhere too  | redirected                |
| /1998/history              | 301 to 301 to 301 to /history               | redirected                |
| /news/lost-dog             | 404                                         | failed                    |
| /weather                   | 500, always                                 | failed, all attempts used |
| /members/                  | forbidden by robots.txt                     | disregarded, no request   |
| /forum/                    | 200, with `nofollow`                        | done; its links are left alone |
| http://estuary-post.invalid/ | linked, on another host                   | never requested           |

`EXPECTED` says the same to a program.
"""

from crawlproj.demo.expected import EXPECTED, SETTINGS, Expected
from crawlproj.demo.loop_thread import LoopThread
from crawlproj.demo.site import DemoSite

__all__ = ["EXPECTED", "SETTINGS", "DemoSite", "Expected", "LoopThread"]

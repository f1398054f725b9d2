"""Pages with a known right answer to whether there is anything to read, and what of it is the main text.

*done* says what a person answers who opens the page with scripts off. *keeps* are pieces of the main text,
*drops* pieces of what stands around it (white space counts once in both).
"""

from __future__ import annotations

from dataclasses import dataclass

LOREM = (
    "The harbour froze in the first week of January, and the ferries stayed where they were. "
    "People walked out on the ice with sledges and dogs, as their grandparents had done. "
    "By the end of the month the pilots measured forty centimetres at the lighthouse. "
)
NAV = "<nav><ul><li><a href=/>Home</a></li><li><a href=/news>Newsroom</a></li><li><a href=/jobs>Careers</a></li></ul></nav>"
FOOTER = "<footer><p>Copyright 2024 Example Corporation</p><a href=/imprint>Imprint</a></footer>"


@dataclass(frozen=True, slots=True)
class Sample:
    """A page and what is right for it."""

    name: str
    html: str
    done: bool
    keeps: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()


def done(name: str, html: str, *keeps: str, drops: tuple[str, ...] = ()) -> Sample:
    return Sample(name, html, done=True, keeps=keeps, drops=drops)


def empty(name: str, html: str) -> Sample:
    return Sample(name, html, done=False)


SHELLS = [
    empty(
        "react shell",
        '<!DOCTYPE html><html lang="en"><head><title>Shop</title><script defer src="/static/js/main.js"></script>'
        "</head><body><noscript>You need to enable JavaScript to run this app.</noscript>"
        '<div id="root"></div></body></html>',
    ),
    empty(
        "vue shell",
        "<!DOCTYPE html><title>Vue</title><div id=app></div><script type=module src=/assets/index.js></script>",
    ),
    empty(
        "angular shell that says loading",
        '<!doctype html><html><head><base href="/"><title>Admin</title></head><body>'
        '<app-root><div class="spinner">Loading...</div></app-root>'
        '<script src="runtime.js" type="module"></script><script src="main.js" type="module"></script></body></html>',
    ),
    empty(
        "next shell with data",
        '<html><head><title>App</title></head><body><div id="__next"></div><script id="__NEXT_DATA__" '
        'type="application/json">{"props":{"text":"'
        + LOREM
        + '"}}</script><script src=/_next/a.js></script></body></html>',
    ),
    empty(
        "nuxt shell with a spinner",
        '<html><body><div id="__nuxt"><div class="loader"><svg><title>wait</title><circle r=4 /></svg>'
        "<span>Please wait…</span></div></div><script>window.__NUXT__={}</script></body></html>",
    ),
    empty(
        "shell with a header and a footer",
        f'<html><body><header><h1>Example</h1></header>{NAV}<div id="app"></div>{FOOTER}<script src=a.js></script></body></html>',
    ),
    empty(
        "shell that asks for scripts in a paragraph of noscript",
        "<html><body><noscript><p>This application needs JavaScript.</p></noscript><div id=main></div>"
        "<script src=app.js></script></body></html>",
    ),
    empty(
        "web component shell",
        '<html><body><my-app></my-app><script type="module">import "/app.js"</script></body></html>',
    ),
    empty(
        "shell with an inline template",
        "<html><body><div id=app></div><template id=row><tr><td>Customer name</td><td>Invoice</td></tr></template>"
        "<script src=a.js></script></body></html>",
    ),
    done(
        "app rendered on the server",
        f'<html><body><div id="__next">{NAV}<main><h1>Winter</h1><p>{LOREM}</p></main></div>'
        '<script id="__NEXT_DATA__" type="application/json">{"a":"hydration payload"}</script></body></html>',
        "Winter",
        "forty centimetres at the lighthouse",
        drops=("Newsroom", "hydration payload"),
    ),
    done(
        "short page of an app rendered on the server",
        '<html><body><div id="root"><h1>Order 17 has been shipped</h1></div><script src=a.js></script></body></html>',
        "Order 17 has been shipped",
    ),
]

NOTHING = [
    empty("zero bytes", ""),
    empty("white space only", " \n\t\r\n "),
    empty("bare document", "<html></html>"),
    empty("head only", "<html><head><title>Title and nothing else</title></head></html>"),
    empty("comments only", "<!-- generated at 12:04 --><html><body><!-- content goes here --></body></html>"),
    empty("menu only", f"<html><body>{NAV}</body></html>"),
    empty(
        "menu, header and footer",
        f"<html><body><header>Example</header>{NAV}<div id=content></div>{FOOTER}</body></html>",
    ),
    empty(
        "menu by role",
        "<html><body><div role=banner>Example</div><div role=navigation><a href=/>Home</a> <a href=/a>About</a></div>"
        "<div role=main></div><div role=contentinfo>Copyright</div></body></html>",
    ),
    empty(
        "menu of 2005",
        '<html><body><div id="navbar"><ul class="menu"><li><a href="/">Home</a></li><li><a href="/p">Products</a></li>'
        '<li><a href="/c">Contact</a></li></ul></div><div id="content"></div></body></html>',
    ),
    empty(
        "image only",
        '<html><body><a href="/big.jpg"><img src="/small.jpg" alt="A boat in a harbour" title="boat"></a></body></html>',
    ),
    empty(
        "image gallery without captions",
        "<html><body>" + '<figure><img src=1.jpg alt="Photograph"></figure>' * 40 + "</body></html>",
    ),
    empty(
        "frameset",
        '<html><head><title>Old site</title></head><frameset cols="20%,80%"><frame src="menu.html"><frame src="main.html"></frameset></html>',
    ),
    empty(
        "iframe only",
        '<html><body><iframe src="https://player.example/1">Your browser has no frames</iframe></body></html>',
    ),
    empty(
        "video only",
        "<html><body><video controls><source src=a.mp4>Your browser has no video</video></body></html>",
    ),
    empty(
        "canvas only",
        "<html><body><canvas id=game width=800>Your browser has no canvas</canvas><script src=g.js></script></body></html>",
    ),
    empty(
        "svg picture",
        '<html><body><svg viewBox="0 0 9 9"><title>Logo of Example</title><desc>A circle</desc><path d="M0 0h9v9z"/></svg></body></html>',
    ),
    empty("noscript only", f"<html><body><noscript>{LOREM}</noscript><script>load()</script></body></html>"),
    empty(
        "json-ld only",
        '<html><head><script type="application/ld+json">{"@type":"Article","articleBody":"'
        + LOREM
        + '"}</script></head><body></body></html>',
    ),
    empty(
        "script and style only",
        f"<html><body><style>p {{ color: red }}</style><script>var text = '{LOREM}';</script></body></html>",
    ),
    empty("hidden by attribute", f"<html><body><div hidden>{LOREM}</div></body></html>"),
    empty("hidden by style", f'<html><body><div style="display: none">{LOREM}</div></body></html>'),
    empty(
        "text in attributes only",
        f'<html><body><div data-text="{LOREM}" title="{LOREM}" aria-label="{LOREM}"></div></body></html>',
    ),
    empty("template only", f"<html><body><template>{LOREM}</template></body></html>"),
    empty("invisible characters", "<html><body><p>\u200b\ufeff&nbsp;&shy;&zwnj;</p></body></html>"),
    empty(
        "search field only",
        '<html><body><form action=/s><input type=search placeholder="Search the archive"><button>Go</button></form></body></html>',
    ),
    empty(
        "login form without labels",
        '<html><body><form method=post><input name=user placeholder="User name"><input type=password><input type=submit value="Log in"></form></body></html>',
    ),
    empty(
        "cookie banner over a shell",
        '<html><body><div id="root"></div><div id="cookie-banner" class="cookie-consent"><p>We use cookies to improve your '
        "experience.</p><button>Accept all</button></div><script src=a.js></script></body></html>",
    ),
    empty(
        "meta refresh page",
        '<html><head><meta http-equiv="refresh" content="0; url=/new"><title>Moved</title></head><body></body></html>',
    ),
    empty(
        "select of a language",
        "<html><body><select><option>English</option><option>Deutsch</option></select></body></html>",
    ),
]

SHORT = [
    done("one word", "<html><body><p>Simplest.</p></body></html>", "Simplest."),
    done("one word without tags", "pong", "pong"),
    done("one character", "<html><body>7</body></html>", "7"),
    done(
        "twelve words",
        "<body><div>The office is closed on Friday because of the summer party again.</div>",
        "closed on Friday",
    ),
    done("heading only", "<html><body><h1>It works!</h1></body></html>", "It works!"),
    done(
        "headings only",
        "<html><body><h1>Agenda</h1><h2>Welcome</h2><h2>Budget</h2><h2>Elections</h2></body></html>",
        "Agenda",
        "Budget",
        "Elections",
    ),
    done(
        "soft 404",
        f"<html><head><title>404</title></head><body>{NAV}<h1>Page not found</h1><p>Sorry.</p>{FOOTER}</body></html>",
        "Page not found",
        drops=("Newsroom", "Imprint"),
    ),
    done(
        "maintenance",
        "<html><body><center><b>We are back at noon.</b></center></body></html>",
        "We are back at noon.",
    ),
    done(
        "directory listing",
        '<html><head><title>Index of /pub</title></head><body><h1>Index of /pub</h1><pre><a href="../">../</a>\n<a href="a.tar.gz">a.tar.gz</a>  2024-01-02 10:00  12M\n<a href="b.iso">b.iso</a>  2023-05-06 09:00  650M\n</pre></body></html>',
        "a.tar.gz",
        "650M",
    ),
    done(
        "login form with labels",
        "<html><body><form><h2>Sign in</h2><label>User name <input></label><label>Password <input type=password></label></form></body></html>",
        "Sign in",
        "User name",
    ),
    done(
        "text in a side bar only",
        "<html><body><div class=sidebar><p>Opening hours: nine to five.</p></div></body></html>",
        "Opening hours: nine to five.",
    ),
    done(
        "text in an aside only",
        "<html><body><aside><p>Opening hours: nine to five.</p></aside></body></html>",
        "Opening hours",
    ),
    done(
        "text in an element called footer",
        "<html><body><div id=footer>All that is left of the site.</div></body></html>",
        "All that is left",
    ),
    done(
        "gallery with captions",
        "<html><body>"
        + "".join(
            f"<figure><img src={n}.jpg><figcaption>Boat number {n} in the ice</figcaption></figure>"
            for n in range(9)
        )
        + "</body></html>",
        "Boat number 0 in the ice",
        "Boat number 8 in the ice",
    ),
    done(
        "a visible noscript beside text",
        "<html><body><noscript>Please enable JavaScript.</noscript><p>Twelve tables are free tonight.</p></body></html>",
        "Twelve tables are free",
        drops=("Please enable",),
    ),
]

TEXTS = [
    done(
        "article",
        f"<html><body><header>Example Times</header>{NAV}<article><h1>Ice in the harbour</h1><p>{LOREM}</p><p>{LOREM}</p></article><aside><h3>Most read</h3><a href=1>Ten recipes for soup</a></aside>{FOOTER}</body></html>",
        "Ice in the harbour",
        "forty centimetres",
        drops=("Newsroom", "Imprint", "Most read"),
    ),
    done(
        "article in divs",
        f'<html><body><div id="header"><a href=/>Example Times</a></div><div id="nav"><a href=/news>Newsroom</a> <a href=/jobs>Careers</a></div><div id="content"><h1>Ice</h1><p>{LOREM}</p><p>{LOREM}</p></div><div id="footer">Copyright 2024 <a href=/imprint>Imprint</a></div></body></html>',
        "forty centimetres",
        drops=("Newsroom", "Imprint"),
    ),
    done(
        "main element",
        f"<html><body>{NAV}<main><h1>Winter</h1><p>{LOREM}</p></main>{FOOTER}</body></html>",
        "Winter",
        "People walked out",
        drops=("Careers", "Imprint"),
    ),
    done(
        "article with a cookie banner",
        f'<html><body><div class="cookie-banner" id="cookie-consent"><p>We use cookies to improve your experience.</p><button>Accept</button></div>{NAV}<main><h1>Winter</h1><p>{LOREM}</p><p>{LOREM}</p></main></body></html>',
        "forty centimetres",
        drops=("We use cookies",),
    ),
    done("no body element", f"<title>Old</title><h1>Winter</h1><p>{LOREM}", "Winter", "forty centimetres"),
    done("plain text in a body", f"<html><body>{LOREM}</body></html>", "forty centimetres"),
    done(
        "pre only",
        "<html><body><pre>RFC 9999\n\n1. Introduction\n   This memo defines nothing.\n</pre></body></html>",
        "1. Introduction",
        "This memo defines nothing.",
    ),
    done(
        "nested tables of 1999",
        f"<html><body bgcolor=white><table width=100%><tr><td width=150><table><tr><td><font size=2><a href=a.htm>Home</a><br><a href=b.htm>Links</a></font></td></tr></table></td><td><table><tr><td><font face=arial><b>Welcome to my page!</b><br>{LOREM}</font></td></tr></table></td></tr></table></body></html>",
        "Welcome to my page!",
        "forty centimetres",
    ),
    done(
        "data table",
        f"<html><body>{NAV}<main><h1>Tides</h1><table><thead><tr><th>Day</th><th>High</th><th>Low</th></tr></thead><tbody>"
        + "".join(f"<tr><td>May {n}</td><td>0{n}:1{n}</td><td>1{n}:4{n}</td></tr>" for n in range(1, 9))
        + "</tbody></table></main></body></html>",
        "Tides",
        "May 3",
        "13:43",
        drops=("Newsroom",),
    ),
    done(
        "table without main",
        "<html><body><table><tr><th>City</th><th>People</th></tr><tr><td>Turku</td><td>195000</td></tr><tr><td>Oulu</td><td>209000</td></tr></table></body></html>",
        "Turku",
        "209000",
    ),
    done(
        "definition list",
        "<html><body><h1>Terms</h1><dl>"
        + "".join(f"<dt>word {n}</dt><dd>The meaning of word {n} in this glossary.</dd>" for n in range(12))
        + "</dl></body></html>",
        "word 0",
        "The meaning of word 11",
    ),
    done(
        "ordered steps",
        f"<html><body>{NAV}<h1>Soup</h1><ol><li>Cut the fish into pieces.</li><li>Boil the potatoes until they are soft.</li><li>Add cream and dill.</li></ol>{FOOTER}</body></html>",
        "Boil the potatoes",
        "Add cream and dill.",
        drops=("Careers",),
    ),
    done(
        "code listing",
        "<html><body><h1>Example</h1><p>The function adds two numbers.</p><pre><code>def add(a, b):\n    return a + b\n</code></pre><p>It is called as shown below, with any two numbers that you have.</p><pre>add(1, 2)</pre></body></html>",
        "The function adds",
        "return a + b",
        "add(1, 2)",
    ),
    done("code only", "<html><body><pre><code>SELECT 1;\nSELECT 2;</code></pre></body></html>", "SELECT 2;"),
    done(
        "forum thread",
        f"<html><body>{NAV}<div class=thread><h1>Which ice skates?</h1>"
        + "".join(
            f'<div class="post"><div class="author">skater{n}</div><div class="message"><p>I have used model {n} for three winters and never fell once.</p></div></div>'
            for n in range(1, 8)
        )
        + f"</div>{FOOTER}</body></html>",
        "Which ice skates?",
        "model 1 for three winters",
        "model 7 for three winters",
        drops=("Newsroom",),
    ),
    done(
        "comments below an article",
        f'<html><body><article><h1>Ice</h1><p>{LOREM}</p><p>{LOREM}</p></article><section class="comments"><h2>Comments</h2><p>First comment by a reader who was there.</p></section></body></html>',
        "forty centimetres",
    ),
    done(
        "questions and answers",
        "<html><body><h1>Help</h1><details open><summary>How do I pay?</summary><p>With any card, at the desk.</p></details><details><summary>May I bring my dog?</summary><p>Yes, on a lead.</p></details></body></html>",
        "How do I pay?",
        "With any card",
        "Yes, on a lead.",
    ),
    done(
        "address and microdata",
        "<html><body><div itemscope><span itemprop=name>Ferry Cafe</span><address>Quay 3, 20100 Turku</address><span>Open daily from 8 to 20</span></div></body></html>",
        "Ferry Cafe",
        "Quay 3",
        "Open daily",
    ),
    done(
        "product page",
        f"<html><body>{NAV}<div class=product><h1>Storm lamp</h1><p class=price>49.90 EUR</p><p>Burns twelve hours on one filling of paraffin and does not go out in the wind.</p><ul><li>Height 25 cm</li><li>Weight 800 g</li></ul><button>Add to cart</button></div>{FOOTER}</body></html>",
        "Storm lamp",
        "49.90 EUR",
        "Burns twelve hours",
        "Weight 800 g",
        drops=("Careers", "Add to cart"),
    ),
    done(
        "poem with breaks",
        "<html><body><p>The ice is thin,<br>the ice is thick,<br>the man walks in<br>with a walking stick.</p></body></html>",
        "the ice is thick, the man walks in",
    ),
    done(
        "blockquote",
        "<html><body><blockquote>Nothing is said that has not been said before.</blockquote></body></html>",
        "Nothing is said",
    ),
    done(
        "mathematics",
        "<html><body><p>The formula is <math><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></math> for a body at rest.</p></body></html>",
        "The formula is",
        "for a body at rest",
    ),
    done(
        "text in svg beside a paragraph",
        "<html><body><svg><text>Axis label</text></svg><p>The chart shows the rainfall of ten years.</p></body></html>",
        "The chart shows the rainfall",
    ),
    done(
        "declarative shadow root",
        f"<html><body><my-card><template shadowrootmode=open><slot></slot></template><p>{LOREM}</p></my-card></body></html>",
        "forty centimetres",
    ),
    done(
        "custom elements",
        f"<html><body><x-layout><x-title>Winter in the north</x-title><x-text>{LOREM}</x-text></x-layout></body></html>",
        "Winter in the north",
        "forty centimetres",
    ),
    done(
        "unclosed tags",
        f"<html><body><div><p>{LOREM}<p><b>Bold <i>both</b> italic</i><table><tr><td>cell<tr><td>last cell",
        "forty centimetres",
        "last cell",
    ),
    done(
        "uppercase tags",
        f"<HTML><BODY><H1>WINTER</H1><P>{LOREM}</P></BODY></HTML>",
        "WINTER",
        "forty centimetres",
    ),
    done(
        "entities",
        "<html><body><p>Fish &amp; chips &#8211; 5 &euro; &lt;cash only&gt;</p></body></html>",
        "Fish & chips \u2013 5 \u20ac <cash only>",
    ),
    done(
        "a dialog over the page",
        f"<html><body><main><p>{LOREM}</p></main><dialog>Subscribe to our newsletter</dialog></body></html>",
        "forty centimetres",
    ),
]

LINKS = [
    done(
        "index of a book",
        f"<html><body>{NAV}<h1>Index X</h1><table><tr><td><ul>"
        + "".join(
            f"<li><a href=#{w}>{w}() (built-in function)</a></li>"
            for w in ("xcor", "xmlcharrefreplace", "xor", "xrange", "xview", "XPath", "XInclude")
        )
        + f"</ul></td></tr></table>{FOOTER}</body></html>",
        "Index X",
        "xcor",
        "XInclude",
        drops=("Newsroom",),
    ),
    done(
        "site map",
        "<html><body><h1>Site map</h1><ul>"
        + "".join(
            f"<li><a href=/c{n}>Category {n}</a><ul><li><a href=/c{n}/a>Boats of class {n}</a></li><li><a href=/c{n}/b>Sails of class {n}</a></li></ul></li>"
            for n in range(8)
        )
        + "</ul></body></html>",
        "Category 0",
        "Sails of class 7",
    ),
    done(
        "list of links alone",
        "<html><body><ul>"
        + "".join(f"<li><a href=/{n}>Report of year {n}</a></li>" for n in range(1990, 2020))
        + "</ul></body></html>",
        "Report of year 1990",
        "Report of year 2019",
    ),
    done(
        "category with pages",
        f"<html><body>{NAV}<main><h1>Lamps</h1>"
        + "".join(
            f"<div class=teaser><a href=/l{n}><h3>Lamp model {n}</h3></a><p>{n}9 EUR, in stock</p></div>"
            for n in range(1, 9)
        )
        + '</main><div class="pagination"><a href="?p=1">1</a> <a href="?p=2">2</a> <a href="?p=3">Next page</a></div></body></html>',
        "Lamp model 1",
        "Lamp model 8",
        "89 EUR",
        drops=("Newsroom",),
    ),
    done(
        "search results",
        "<html><body><form><input name=q></form><ol>"
        + "".join(
            f"<li><a href=/r{n}>Result number {n}</a><p>A short piece of the text that was found in document {n}.</p></li>"
            for n in range(10)
        )
        + "</ol></body></html>",
        "Result number 0",
        "document 9",
    ),
    done(
        "alphabetical index",
        "<html><body><h1>Members</h1>"
        + "".join(
            f"<h2>{c}</h2><p><a href=/{c}1>{c}nna</a>, <a href=/{c}2>{c}lbert</a></p>" for c in "ABCDEFG"
        )
        + "</body></html>",
        "Members",
        "Anna",
        "Glbert",
    ),
    done(
        "table of contents",
        '<html><body><div class="toc"><h1>Handbook</h1><ol><li><a href=1>Preface</a></li><li><a href=2>Installing the system</a></li><li><a href=3>Network services</a></li></ol></div></body></html>',
        "Handbook",
        "Installing the system",
        "Network services",
    ),
]

ZH = "今年一月的第一个星期，港口结了冰，渡轮都停在码头。人们拉着雪橇、带着狗走到冰面上，就像他们的祖父母当年那样。"
JA = "一月の最初の週に港が凍り、渡し船は動けなくなった。人々は祖父母の代と同じように、犬とそりを連れて氷の上を歩いた。"
TH = "ท่าเรือกลายเป็นน้ำแข็งในสัปดาห์แรกของเดือนมกราคม และเรือข้ามฟากก็จอดอยู่กับที่ ผู้คนเดินออกไปบนน้ำแข็งพร้อมกับสุนัข"
AR = "تجمّد الميناء في الأسبوع الأول من يناير وبقيت العبّارات في مكانها. خرج الناس إلى الجليد مع كلابهم كما فعل أجدادهم من قبل."
HE = "הנמל קפא בשבוע הראשון של ינואר, והמעבורות נשארו במקומן. אנשים יצאו אל הקרח עם כלבים ומזחלות."
HI = "जनवरी के पहले सप्ताह में बंदरगाह जम गया और नावें जहाँ थीं वहीं रुक गईं। लोग कुत्तों के साथ बर्फ पर निकल आए।"
RU = "В первую неделю января гавань замёрзла, и паромы остались на месте. Люди выходили на лёд с собаками и санями."
KO = "일월 첫째 주에 항구가 얼어붙어 여객선이 움직이지 못했다. 사람들은 개와 썰매를 데리고 얼음 위로 걸어 나갔다."

LANGUAGES = [
    done(
        "Chinese article",
        f"<html lang=zh><body><nav><a href=/>首页</a> <a href=/x>新闻中心</a></nav><article><h1>港口结冰</h1><p>{ZH}</p></article><footer>版权所有</footer></body></html>",
        "港口结冰",
        "渡轮都停在码头",
        drops=("新闻中心", "版权所有"),
    ),
    done("Chinese, one line", "<html lang=zh><body><p>今日休息</p></body></html>", "今日休息"),
    done(
        "Japanese article",
        f"<html lang=ja><body><nav><a href=/>ホーム</a></nav><main><h1>氷</h1><p>{JA}</p></main></body></html>",
        "渡し船は動けなくなった",
        drops=("ホーム",),
    ),
    done("Japanese, one character", "<html lang=ja><body><p>氷</p></body></html>", "氷"),
    done(
        "Thai article",
        f"<html lang=th><body><nav><a href=/>หน้าแรก</a></nav><div><p>{TH}</p></div></body></html>",
        "เรือข้ามฟาก",
        drops=("หน้าแรก",),
    ),
    done(
        "Arabic article",
        f"<html lang=ar dir=rtl><body><nav><a href=/>الرئيسية</a></nav><main><p>{AR}</p></main></body></html>",
        "العبّارات في مكانها",
        drops=("الرئيسية",),
    ),
    done("Hebrew article", f"<html lang=he dir=rtl><body><p>{HE}</p></body></html>", "המעבורות נשארו במקומן"),
    done("Hindi article", f"<html lang=hi><body><p>{HI}</p></body></html>", "बंदरगाह जम गया"),
    done(
        "Russian article",
        f"<html lang=ru><body><nav><a href=/>Главная</a></nav><div class=content><p>{RU}</p><p>{RU}</p></div></body></html>",
        "паромы остались на месте",
        drops=("Главная",),
    ),
    done(
        "Korean article",
        f"<html lang=ko><body><article><p>{KO}</p></article></body></html>",
        "항구가 얼어붙어",
    ),
    done("emoji", "<html><body><p>🎉🎉</p></body></html>", "🎉🎉"),
]

TOWN = "The town council met on Tuesday and decided to repair the bridge before the winter comes. "

# Written when the rules stood, to see what they are worth.
LATER = [
    empty("shell that says Loading and no more", '<div id="root">Loading</div><script src=a.js></script>'),
    empty(
        "ember shell",
        '<body class="ember-application"><script src=vendor.js></script><div>Loading…</div></body>',
    ),
    empty("script that leads elsewhere", '<html><body><script>location="/x"</script></body></html>'),
    empty(
        "menu of 1998", "<table><tr><td><a href=a>Home</a></td><td><a href=b>Products</a></td></tr></table>"
    ),
    empty(
        "header of divs",
        '<div class="site-header"><div class="logo"><a href=/>ACME</a></div><ul class="nav navbar-nav"><li><a href=/a>About</a></li></ul></div><div class="container"></div>',
    ),
    empty(
        "menu of bootstrap",
        '<nav class="navbar"><a class="navbar-brand" href="/">Brand</a><ul class="nav"><li><a>One</a></li></ul></nav><div id="main"></div><footer class="footer"><p>2020</p></footer>',
    ),
    empty("flutter shell", '<body><script src="main.dart.js"></script></body>'),
    empty(
        "blazor shell",
        '<div id="app"><svg class="loading-progress"></svg></div><div id="blazor-error-ui">An unhandled error has occurred.</div><script src="blazor.webassembly.js"></script>',
    ),
    empty(
        "gatsby shell",
        '<div id="___gatsby"></div><noscript>This app works best with JavaScript enabled.</noscript><script src=x></script>',
    ),
    empty("tracking pixel", "<img src=p.gif width=1 height=1>"),
    empty("button", '<button onclick="print()">Print</button>'),
    empty("invisible text", '<p style="visibility:hidden">Secret words</p>'),
    done(
        "article of a blog",
        f'<div class="wrap"><div class="post-content"><h2>Bridge</h2><p>{TOWN * 4}</p></div></div>',
        "Bridge",
        "repair the bridge",
    ),
    done("notice in a footer of a div", "<div class=footer><p>Site closed.</p></div>", "Site closed."),
    done(
        "telephone number beside a menu",
        '<div class="content"><p>Call 555-1234</p></div><ul class="menu"><li><a>Home</a></li></ul>',
        "Call 555-1234",
    ),
    done("menu of a restaurant", '<ul class="menu"><li>Soup 4</li><li>Fish 9</li></ul>', "Soup 4", "Fish 9"),
    done("hub of links", '<div id="links"><a href=a>Instagram</a><a href=b>Shop</a></div>', "Shop"),
    done("health check", "OK", "OK"),
    done("number", "<html><body><b>42</b></body></html>", "42"),
    done("quotation that trails off", "<blockquote>Less is more…</blockquote>", "Less is more…"),
    done(
        "prices by nuxt on the server",
        '<div id="__nuxt"><div><h1>Preise</h1><p>Ab 5 Euro im Monat.</p></div></div><script>x</script>',
        "Preise",
        "Ab 5 Euro",
    ),
    done(
        "challenge", "<h1>Checking your browser</h1><p>Please enable cookies.</p>", "Please enable cookies."
    ),
    done("one definition", "<dl><dt>Foo</dt><dd>Bar</dd></dl>", "Foo", "Bar"),
    done(
        "table with a caption",
        "<table><caption>Results 2020</caption><tr><td>1</td></tr></table>",
        "Results 2020",
        "1",
    ),
    done(
        "form with a legend",
        "<form><fieldset><legend>Subscribe</legend>Enter your address<input></fieldset></form>",
        "Subscribe",
        "Enter your address",
    ),
    done(
        "article in a header", f"<header><h1>Launch day</h1><p>{TOWN * 3}</p></header>", "repair the bridge"
    ),
    done(
        "article in a section called nav",
        f'<section class="nav-wrapper"><p>{TOWN * 3}</p></section>',
        "repair the bridge",
    ),
    done("Thai, one word", "<p>สวัสดี</p>", "สวัสดี"),
    done("log", "<pre>ok\nok\n</pre>", "ok ok"),
    done("marquee", "<marquee>Welcome!</marquee>", "Welcome!"),
]

#: Pages that are judged wrong: nothing in them tells what a person sees.
KNOWN_WRONG = frozenset(
    {"shell that says Loading and no more", "menu of 1998", "header of divs", "blazor shell"}
)

SAMPLES = [*SHELLS, *NOTHING, *SHORT, *TEXTS, *LINKS, *LANGUAGES, *LATER]
